"""The AttenIO accelerator in cycles and joules: plans become programs, programs timelines."""

from attenio.accelerator.controller import SIMULATED, program_of
from attenio.accelerator.energy import Area, Component, Energy, area_of, energy_of, peak_power_watts
from attenio.accelerator.events import event_timeline
from attenio.accelerator.fastest import fastest_plan
from attenio.accelerator.functional import ExpApproximation, FunctionalRun, run_functional
from attenio.accelerator.growth import Growing
from attenio.accelerator.hardware import Hardware
from attenio.accelerator.periodic import periodic_timeline
from attenio.accelerator.program import Program, Ramp, Repeat
from attenio.accelerator.programs.attenio import Switches
from attenio.accelerator.refresh import RefreshRun, RefreshTimes, refreshed
from attenio.accelerator.simulate import Simulation, plan_for, simulate, simulate_plan
from attenio.accelerator.step import Engine, GrowingStep, Pace, Step, Work
from attenio.accelerator.timeline import Timeline
from attenio.accelerator.trace import trace_json, trace_text
from attenio.accelerator.tracks import spans

__all__ = [
    "SIMULATED",
    "Area",
    "Component",
    "Energy",
    "Engine",
    "ExpApproximation",
    "FunctionalRun",
    "Growing",
    "GrowingStep",
    "Hardware",
    "Pace",
    "Program",
    "Ramp",
    "RefreshRun",
    "RefreshTimes",
    "Repeat",
    "Simulation",
    "Step",
    "Switches",
    "Timeline",
    "Work",
    "area_of",
    "energy_of",
    "event_timeline",
    "fastest_plan",
    "peak_power_watts",
    "periodic_timeline",
    "plan_for",
    "program_of",
    "refreshed",
    "run_functional",
    "simulate",
    "simulate_plan",
    "spans",
    "trace_json",
    "trace_text",
]
