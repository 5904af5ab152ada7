"""Feedback about kinds of goals: advice for missed goals, and descriptions of kinds.

A goal's own description names the answer and never gets here; its class does not leave this project either.
"""

_FIND = ("First search for what the task asks for, and only then focus on it.",)
_FOCUS = ("When the task names it, focus on the thing.",)
_STAGE = ("Focus on the stages of life in their order, earliest first.", "When the next stage is still to come, wait.")
_PLANE = ("Before you focus on one of the planes, try each of them in the same way.",)
_HOLD = ("When it will be needed elsewhere, pick up the object.",)
_PUT = ("When you have reached the place for it, move the object to the container.",)
_TOGETHER = ("Always bring what belongs together into one container that holds nothing else.",)
_START = ("When a device is needed, activate it.",)
_STOP = ("After it has done its work, deactivate it.",)
_CHANGE = ("Keep at heating or cooling until the substance has changed its state.",)
_HEAT = ("Try another heater when one of them does not do.",)
_COOL = ("Try a colder place when one of them does not do.",)
_GROW = ("Always give a seed both soil and water.", "When everything that grows has what it needs, wait.")
_WIRES = ("Always check that each wire joins both of the parts it is meant to connect.",)

_GOALS: dict[str, dict[str, tuple[str, ...]]] = {
    "a place to be in": {
        "GoalMoveToLocation": ("First go to the place that the task names.",),
        "GoalMoveToNewLocation": ("First leave the room in which you start.",),
        "GoalInRoomWithObject": ("Search one room after the other for what the task needs.",),
        "GoalInRoomWithOpenDoor": ("Before you leave a room, open the doors that are closed.",),
        "GoalStayInLocation": ("Only leave the place that the task names when you are done.",),
    },
    "the thing asked for in focus": {
        "GoalFind": _FIND,
        "GoalFocusOnLivingThing": _FOCUS,
        "GoalFocusOnNonlivingThing": _FOCUS,
        "GoalFocusOnPlant": _FOCUS,
        "GoalFocusOnAnimal": _FOCUS,
    },
    "a stage of life in focus": {"GoalFindLivingThingStage": _STAGE},
    "an answer in focus": {
        "GoalFindInclinedPlane": _PLANE,
        "GoalFindInclinedPlaneNamed": _PLANE,
        "GoalFindAnswerBox": ("Before you focus on a box, find out what decides between the boxes.",),
    },
    "a thing in its container": {
        "GoalContainerByTemperature": ("Before you choose a container, measure the temperature.",),
        "GoalObjectInContainer": (*_HOLD, *_PUT),
        "GoalObjectInContainerByName": _PUT,
        "GoalObjectInDirectContainer": _PUT,
        "GoalSpecificObjectInDirectContainer": (*_HOLD, *_PUT),
    },
    "several things in one container": {"GoalObjectsInSingleContainer": _TOGETHER},
    "a container opened": {"GoalContainerOpen": ("When it may hold what you need, open the container.",)},
    "a text or an object looked at": {
        "GoalPastActionReadObject": ("Always read recipes and notes that you find.",),
        "GoalPastActionExamineObject": ("After each measurement, look at the object that shows its value.",),
    },
    "an instrument in use": {
        "GoalPastActionUseObjectOnObject": ("When you hold an instrument, use it on the substance.",),
    },
    "a device switched on": {"GoalActivateDevice": _START, "GoalActivateDeviceWithName": _START},
    "a device switched off": {"GoalDeactivateDevice": _STOP, "GoalDeactivateDeviceWithName": _STOP},
    "a state of matter": {
        "GoalChangeStateOfMatter": _CHANGE,
        "GoalIsStateOfMatter": _CHANGE,
        "GoalIsNotStateOfMatter": _CHANGE,
        "GoalIsDifferentStateOfMatter": _CHANGE,
    },
    "a temperature": {
        "GoalTemperatureIncrease": _HEAT,
        "GoalTemperatureDecrease": _COOL,
        "GoalTemperatureOnFire": ("Try fire where no other heater does.",),
    },
    "a stage of growth": {"GoalLifeStage": _GROW, "GoalLifeStageAnywhere": _GROW},
    "a connected circuit": {
        "GoalElectricallyConnected": _WIRES,
        "GoalObjectConnectedToWire": _WIRES,
        "GoalWireConnectsObjectAndAnyLightBulb": _WIRES,
        "GoalWireConnectsObjectAndAnyPowerSource": _WIRES,
        "GoalWireConnectsPowerSourceAndAnyLightBulb": _WIRES,
    },
}
"""A description of kinds, in words that hold for every variant; then class of goals (version 1.2.3, package
``scienceworld.goals.specificgoals``) to sentences. Other classes give no advice. Sentences without a name ("focus on
it") apply to the subject of any task."""

GOALS = {kind: (phrase, advice) for phrase, kinds in _GOALS.items() for kind, advice in kinds.items()}
