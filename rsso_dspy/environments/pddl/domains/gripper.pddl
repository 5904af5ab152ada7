; A robot with two grippers carries balls from room to room.
(define (domain gripper)
  (:requirements :strips)
  (:predicates (room ?x) (ball ?x) (gripper ?x)
               (at-robby ?place) (at ?item ?place) (free ?hand) (carry ?item ?hand))
  (:action move
    :parameters (?here ?there)
    :precondition (and (room ?here) (room ?there) (at-robby ?here))
    :effect (and (not (at-robby ?here)) (at-robby ?there)))
  (:action pick
    :parameters (?item ?place ?hand)
    :precondition (and (ball ?item) (room ?place) (gripper ?hand)
                       (at-robby ?place) (at ?item ?place) (free ?hand))
    :effect (and (not (at ?item ?place)) (not (free ?hand)) (carry ?item ?hand)))
  (:action drop
    :parameters (?item ?place ?hand)
    :precondition (and (ball ?item) (room ?place) (gripper ?hand)
                       (at-robby ?place) (carry ?item ?hand))
    :effect (and (not (carry ?item ?hand)) (free ?hand) (at ?item ?place))))
