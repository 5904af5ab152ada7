"""Asks a proposer for better instructions while a program is compiled, and applies its answer.

digest          a trial in a few lines
names           names of things, and what stands for them
task_types      how tasks of a type are worded
shared_lines    what several variants, and several types, have in common
edits           edits of an instruction, and their bounds
history         what was proposed before and what came of it
instructions    the words that are really sent
request         all of that as the fields of one question
proposer        the question asked
"""
