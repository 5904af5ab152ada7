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

ADVICE: dict[str, tuple[str, ...]] = {
    "GoalMoveToLocation": ("First go to the place that the task names.",),
    "GoalMoveToNewLocation": ("First leave the room in which you start.",),
    "GoalInRoomWithObject": ("Search one room after the other for what the task needs.",),
    "GoalInRoomWithOpenDoor": ("Before you leave a room, open the doors that are closed.",),
    "GoalStayInLocation": ("Only leave the place that the task names when you are done.",),
    "GoalFind": _FIND,
    "GoalFocusOnLivingThing": _FOCUS,
    "GoalFocusOnNonlivingThing": _FOCUS,
    "GoalFocusOnPlant": _FOCUS,
    "GoalFocusOnAnimal": _FOCUS,
    "GoalFindLivingThingStage": _STAGE,
    "GoalFindInclinedPlane": _PLANE,
    "GoalFindInclinedPlaneNamed": _PLANE,
    "GoalFindAnswerBox": ("Before you focus on a box, find out what decides between the boxes.",),
    "GoalContainerByTemperature": ("Before you choose a container, measure the temperature.",),
    "GoalObjectInContainer": (*_HOLD, *_PUT),
    "GoalObjectInContainerByName": _PUT,
    "GoalObjectInDirectContainer": _PUT,
    "GoalSpecificObjectInDirectContainer": (*_HOLD, *_PUT),
    "GoalObjectsInSingleContainer": _TOGETHER,
    "GoalContainerOpen": ("When it may hold what you need, open the container.",),
    "GoalPastActionReadObject": ("Always read recipes and notes that you find.",),
    "GoalPastActionExamineObject": ("After each measurement, look at the object that shows its value.",),
    "GoalPastActionUseObjectOnObject": ("When you hold an instrument, use it on the substance.",),
    "GoalActivateDevice": _START,
    "GoalActivateDeviceWithName": _START,
    "GoalDeactivateDevice": _STOP,
    "GoalDeactivateDeviceWithName": _STOP,
    "GoalChangeStateOfMatter": _CHANGE,
    "GoalIsStateOfMatter": _CHANGE,
    "GoalIsNotStateOfMatter": _CHANGE,
    "GoalIsDifferentStateOfMatter": _CHANGE,
    "GoalTemperatureIncrease": _HEAT,
    "GoalTemperatureDecrease": _COOL,
    "GoalTemperatureOnFire": ("Try fire where no other heater does.",),
    "GoalLifeStage": _GROW,
    "GoalLifeStageAnywhere": _GROW,
    "GoalElectricallyConnected": _WIRES,
    "GoalObjectConnectedToWire": _WIRES,
    "GoalWireConnectsObjectAndAnyLightBulb": _WIRES,
    "GoalWireConnectsObjectAndAnyPowerSource": _WIRES,
    "GoalWireConnectsPowerSourceAndAnyLightBulb": _WIRES,
}
"""Class of goals (version 1.2.3, package ``scienceworld.goals.specificgoals``) to sentences; other classes give
no advice. Sentences without a name ("focus on it") apply to the subject of any task."""

_BY_PHRASE: dict[str, tuple[str, ...]] = {
    "a place to be in": (
        "GoalMoveToLocation",
        "GoalMoveToNewLocation",
        "GoalInRoomWithObject",
        "GoalInRoomWithOpenDoor",
        "GoalStayInLocation",
    ),
    "the thing asked for in focus": (
        "GoalFind",
        "GoalFocusOnLivingThing",
        "GoalFocusOnNonlivingThing",
        "GoalFocusOnPlant",
        "GoalFocusOnAnimal",
    ),
    "a stage of life in focus": ("GoalFindLivingThingStage",),
    "an answer in focus": ("GoalFindInclinedPlane", "GoalFindInclinedPlaneNamed", "GoalFindAnswerBox"),
    "a thing in its container": (
        "GoalContainerByTemperature",
        "GoalObjectInContainer",
        "GoalObjectInContainerByName",
        "GoalObjectInDirectContainer",
        "GoalSpecificObjectInDirectContainer",
    ),
    "several things in one container": ("GoalObjectsInSingleContainer",),
    "a container opened": ("GoalContainerOpen",),
    "a text or an object looked at": ("GoalPastActionReadObject", "GoalPastActionExamineObject"),
    "an instrument in use": ("GoalPastActionUseObjectOnObject",),
    "a device switched on": ("GoalActivateDevice", "GoalActivateDeviceWithName"),
    "a device switched off": ("GoalDeactivateDevice", "GoalDeactivateDeviceWithName"),
    "a state of matter": (
        "GoalChangeStateOfMatter",
        "GoalIsStateOfMatter",
        "GoalIsNotStateOfMatter",
        "GoalIsDifferentStateOfMatter",
    ),
    "a temperature": ("GoalTemperatureIncrease", "GoalTemperatureDecrease", "GoalTemperatureOnFire"),
    "a stage of growth": ("GoalLifeStage", "GoalLifeStageAnywhere"),
    "a connected circuit": (
        "GoalElectricallyConnected",
        "GoalObjectConnectedToWire",
        "GoalWireConnectsObjectAndAnyLightBulb",
        "GoalWireConnectsObjectAndAnyPowerSource",
        "GoalWireConnectsPowerSourceAndAnyLightBulb",
    ),
}
"""Class of goals to its description, in words that hold for every variant."""

PHRASES = {kind: phrase for phrase, kinds in _BY_PHRASE.items() for kind in kinds}
"""Class of goals to a description of the kind."""
