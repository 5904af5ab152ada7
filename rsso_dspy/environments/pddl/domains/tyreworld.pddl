; Flat wheels are changed for intact ones, with the tools from the boot.
(define (domain tyreworld)
  (:requirements :strips :typing)
  (:types thing container hub - object
          tool wheel nut - thing)
  (:constants wrench jack pump - tool)
  (:predicates (unlocked ?box - container) (isopen ?box - container) (closed ?box - container)
               (in ?item - thing ?box - container) (have ?item - thing)
               (tight ?bolt - nut ?axle - hub) (loose ?bolt - nut ?axle - hub)
               (on-ground ?axle - hub) (not-on-ground ?axle - hub)
               (fastened ?axle - hub) (unfastened ?axle - hub) (free ?axle - hub)
               (on ?tyre - wheel ?axle - hub) (intact ?tyre - wheel)
               (inflated ?tyre - wheel) (not-inflated ?tyre - wheel))
  ; the boot
  (:action open
    :parameters (?box - container)
    :precondition (and (closed ?box) (unlocked ?box))
    :effect (and (not (closed ?box)) (isopen ?box)))
  (:action close
    :parameters (?box - container)
    :precondition (isopen ?box)
    :effect (and (not (isopen ?box)) (closed ?box)))
  (:action fetch
    :parameters (?item - thing ?box - container)
    :precondition (and (isopen ?box) (in ?item ?box))
    :effect (and (not (in ?item ?box)) (have ?item)))
  (:action put-away
    :parameters (?item - thing ?box - container)
    :precondition (and (isopen ?box) (have ?item))
    :effect (and (not (have ?item)) (in ?item ?box)))
  ; nuts
  (:action loosen
    :parameters (?bolt - nut ?axle - hub)
    :precondition (and (have wrench) (on-ground ?axle) (tight ?bolt ?axle))
    :effect (and (not (tight ?bolt ?axle)) (loose ?bolt ?axle)))
  (:action tighten
    :parameters (?bolt - nut ?axle - hub)
    :precondition (and (have wrench) (on-ground ?axle) (loose ?bolt ?axle))
    :effect (and (not (loose ?bolt ?axle)) (tight ?bolt ?axle)))
  (:action undo
    :parameters (?bolt - nut ?axle - hub)
    :precondition (and (have wrench) (not-on-ground ?axle) (fastened ?axle) (loose ?bolt ?axle))
    :effect (and (not (fastened ?axle)) (not (loose ?bolt ?axle)) (unfastened ?axle) (have ?bolt)))
  (:action do-up
    :parameters (?bolt - nut ?axle - hub)
    :precondition (and (have wrench) (have ?bolt) (not-on-ground ?axle) (unfastened ?axle))
    :effect (and (not (unfastened ?axle)) (not (have ?bolt)) (fastened ?axle) (loose ?bolt ?axle)))
  ; the jack stays under the hub while it is up
  (:action jack-up
    :parameters (?axle - hub)
    :precondition (and (have jack) (on-ground ?axle))
    :effect (and (not (have jack)) (not (on-ground ?axle)) (not-on-ground ?axle)))
  (:action jack-down
    :parameters (?axle - hub)
    :precondition (not-on-ground ?axle)
    :effect (and (not (not-on-ground ?axle)) (on-ground ?axle) (have jack)))
  ; wheels
  (:action remove-wheel
    :parameters (?tyre - wheel ?axle - hub)
    :precondition (and (not-on-ground ?axle) (unfastened ?axle) (on ?tyre ?axle))
    :effect (and (not (on ?tyre ?axle)) (free ?axle) (have ?tyre)))
  (:action put-on-wheel
    :parameters (?tyre - wheel ?axle - hub)
    :precondition (and (not-on-ground ?axle) (unfastened ?axle) (free ?axle) (have ?tyre))
    :effect (and (not (free ?axle)) (not (have ?tyre)) (on ?tyre ?axle)))
  (:action inflate
    :parameters (?tyre - wheel)
    :precondition (and (have pump) (intact ?tyre) (not-inflated ?tyre))
    :effect (and (not (not-inflated ?tyre)) (inflated ?tyre))))
