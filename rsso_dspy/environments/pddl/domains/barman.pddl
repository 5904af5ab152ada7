; Two hands mix cocktails in a shaker and serve them in shot glasses.
(define (domain barman)
  (:requirements :strips :typing)
  (:types hand level dispenser container beverage - object
          shot shaker - container
          ingredient cocktail - beverage)
  (:predicates (ontable ?vessel - container) (handempty ?hand - hand) (holding ?hand - hand ?vessel - container)
               (empty ?vessel - container) (clean ?vessel - container)
               (contains ?vessel - container ?drink - beverage) (used ?vessel - container ?drink - beverage)
               (dispenses ?tap - dispenser ?part - ingredient)
               (shaker-level ?mixer - shaker ?now - level) (shaker-empty-level ?mixer - shaker ?bottom - level)
               (next ?lower - level ?higher - level)
               (unshaked ?mixer - shaker) (shaked ?mixer - shaker)
               (cocktail-part1 ?drink - cocktail ?part - ingredient)
               (cocktail-part2 ?drink - cocktail ?part - ingredient))
  ; hands
  (:action grasp
    :parameters (?hand - hand ?vessel - container)
    :precondition (and (handempty ?hand) (ontable ?vessel))
    :effect (and (not (handempty ?hand)) (not (ontable ?vessel)) (holding ?hand ?vessel)))
  (:action leave
    :parameters (?hand - hand ?vessel - container)
    :precondition (holding ?hand ?vessel)
    :effect (and (not (holding ?hand ?vessel)) (handempty ?hand) (ontable ?vessel)))
  ; shot glasses
  (:action fill-shot
    :parameters (?glass - shot ?part - ingredient ?hand - hand ?other - hand ?tap - dispenser)
    :precondition (and (dispenses ?tap ?part) (holding ?hand ?glass) (handempty ?other)
                       (clean ?glass) (empty ?glass))
    :effect (and (not (clean ?glass)) (not (empty ?glass)) (contains ?glass ?part) (used ?glass ?part)))
  (:action refill-shot
    :parameters (?glass - shot ?part - ingredient ?hand - hand ?other - hand ?tap - dispenser)
    :precondition (and (dispenses ?tap ?part) (holding ?hand ?glass) (handempty ?other)
                       (used ?glass ?part) (empty ?glass))
    :effect (and (not (empty ?glass)) (contains ?glass ?part)))
  (:action empty-shot
    :parameters (?hand - hand ?glass - shot ?drink - beverage)
    :precondition (and (holding ?hand ?glass) (contains ?glass ?drink))
    :effect (and (not (contains ?glass ?drink)) (empty ?glass)))
  (:action clean-shot
    :parameters (?glass - shot ?drink - beverage ?hand - hand ?other - hand)
    :precondition (and (holding ?hand ?glass) (handempty ?other) (empty ?glass) (used ?glass ?drink))
    :effect (and (not (used ?glass ?drink)) (clean ?glass)))
  ; from a glass into the shaker
  (:action pour-shot-to-clean-shaker
    :parameters (?glass - shot ?part - ingredient ?mixer - shaker ?hand - hand ?before - level ?after - level)
    :precondition (and (holding ?hand ?glass) (contains ?glass ?part) (clean ?mixer) (empty ?mixer)
                       (shaker-level ?mixer ?before) (next ?before ?after))
    :effect (and (not (contains ?glass ?part)) (empty ?glass)
                 (not (clean ?mixer)) (not (empty ?mixer)) (contains ?mixer ?part) (unshaked ?mixer)
                 (not (shaker-level ?mixer ?before)) (shaker-level ?mixer ?after)))
  (:action pour-shot-to-used-shaker
    :parameters (?glass - shot ?part - ingredient ?mixer - shaker ?hand - hand ?before - level ?after - level)
    :precondition (and (holding ?hand ?glass) (contains ?glass ?part) (unshaked ?mixer)
                       (shaker-level ?mixer ?before) (next ?before ?after))
    :effect (and (not (contains ?glass ?part)) (empty ?glass) (contains ?mixer ?part)
                 (not (shaker-level ?mixer ?before)) (shaker-level ?mixer ?after)))
  ; the shaker
  (:action shake
    :parameters (?drink - cocktail ?first - ingredient ?second - ingredient ?mixer - shaker
                 ?hand - hand ?other - hand)
    :precondition (and (cocktail-part1 ?drink ?first) (cocktail-part2 ?drink ?second)
                       (holding ?hand ?mixer) (handempty ?other) (unshaked ?mixer)
                       (contains ?mixer ?first) (contains ?mixer ?second))
    :effect (and (not (unshaked ?mixer)) (shaked ?mixer)
                 (not (contains ?mixer ?first)) (not (contains ?mixer ?second)) (contains ?mixer ?drink)))
  (:action pour-shaker-to-shot
    :parameters (?drink - beverage ?glass - shot ?hand - hand ?mixer - shaker ?before - level ?after - level)
    :precondition (and (holding ?hand ?mixer) (shaked ?mixer) (contains ?mixer ?drink)
                       (clean ?glass) (empty ?glass) (shaker-level ?mixer ?before) (next ?after ?before))
    :effect (and (not (clean ?glass)) (not (empty ?glass)) (contains ?glass ?drink)
                 (not (shaker-level ?mixer ?before)) (shaker-level ?mixer ?after)))
  (:action empty-shaker
    :parameters (?hand - hand ?mixer - shaker ?drink - cocktail ?before - level ?bottom - level)
    :precondition (and (holding ?hand ?mixer) (shaked ?mixer) (contains ?mixer ?drink)
                       (shaker-level ?mixer ?before) (shaker-empty-level ?mixer ?bottom))
    :effect (and (not (shaked ?mixer)) (not (contains ?mixer ?drink)) (empty ?mixer)
                 (not (shaker-level ?mixer ?before)) (shaker-level ?mixer ?bottom)))
  (:action clean-shaker
    :parameters (?hand - hand ?other - hand ?mixer - shaker)
    :precondition (and (holding ?hand ?mixer) (handempty ?other) (empty ?mixer))
    :effect (clean ?mixer)))
