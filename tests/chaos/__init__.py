"""A run that is disturbed at random from all sides, and what must hold of its folder afterwards.

process.py    the command line in a process of its own, its simulators, and a disk that can be full
setup.py      what is played, the scripted model that answers, and what became of it
run.py        a calm run and a disturbed one, the faults drawn for it, and who inflicts them
checks.py     what must hold
"""
