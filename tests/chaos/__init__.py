"""A run that is disturbed at random from all sides, and what must hold of its folder afterwards.

clock.py    a wall clock that jumps, for one process
process.py  the command line in a process of its own, its simulators, and a disk that can be full
run.py      the scripted model, the faults drawn, and who inflicts them
checks.py   what must hold
"""
