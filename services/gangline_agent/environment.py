"""The environment a task of the agent runs in; see gangline_kit.carrying.environment."""

from gangline_kit.carrying.environment import Environment as Environment
from gangline_kit.carrying.environment import Place as Place
from gangline_kit.carrying.environment import build as build
from gangline_kit.carrying.environment import nodes_of as nodes_of
from gangline_kit.carrying.environment import port_kept_by as port_kept_by
from gangline_kit.carrying.environment import role_of as role_of
from gangline_kit.carrying.environment import world_size as world_size
