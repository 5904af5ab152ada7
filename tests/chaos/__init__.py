"""A run that is disturbed from all sides, and what must hold of its folder afterwards.

process.py    the command line in a process of its own, its simulators, and a disk that can be full
setup.py      what is played, the scripted model that answers, and what became of it
run.py        a calm run and a disturbed one
checks.py     what must hold
"""
