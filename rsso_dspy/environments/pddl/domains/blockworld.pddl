; One arm builds towers of blocks on a table.
(define (domain blockworld)
  (:requirements :strips)
  (:predicates (arm-empty) (holding ?block) (clear ?block) (on-table ?block) (on ?above ?below))
  (:action pickup
    :parameters (?block)
    :precondition (and (arm-empty) (on-table ?block) (clear ?block))
    :effect (and (not (arm-empty)) (not (on-table ?block)) (not (clear ?block)) (holding ?block)))
  (:action putdown
    :parameters (?block)
    :precondition (holding ?block)
    :effect (and (not (holding ?block)) (on-table ?block) (clear ?block) (arm-empty)))
  (:action stack
    :parameters (?block ?below)
    :precondition (and (holding ?block) (clear ?below))
    :effect (and (not (holding ?block)) (not (clear ?below))
                 (on ?block ?below) (clear ?block) (arm-empty)))
  (:action unstack
    :parameters (?block ?below)
    :precondition (and (arm-empty) (on ?block ?below) (clear ?block))
    :effect (and (not (arm-empty)) (not (on ?block ?below)) (not (clear ?block))
                 (holding ?block) (clear ?below))))
