"""`shelltie places`: RBAC and NetworkPolicy that a place in Kubernetes needs, as YAML."""

from argparse import Namespace

from shelltie.basics.validate import did_you_mean
from shelltie.errors import ConfigWrong
from shelltie.providers.places.kubernetes.rights import rights
from shelltie.settings import layers, paths
from shelltie.settings.places import KubernetesPlace


def main(args: Namespace) -> int:
    """Print what is to be applied. It is applied by a person, who may grant more than we have."""
    places = layers.load(paths.here()).places
    place = places.get(args.place)
    if place is None:
        advice = did_you_mean(args.place, places) or f"; there are {', '.join(places) or 'none'}"
        raise ConfigWrong(f"there is no place {args.place} in your settings{advice}")
    if not isinstance(place, KubernetesPlace):
        raise ConfigWrong(
            f"place {args.place} is of kind {place.kind}, which needs nothing applied"
        )
    if not place.namespace:
        raise ConfigWrong(
            f"places.{args.place}.namespace is not set: say where the pods are made, in a namespace"
            " of their own"
        )
    print(rights(args.place, place), end="")
    return 0
