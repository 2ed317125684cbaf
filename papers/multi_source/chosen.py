"""The settings in use, by problem and method; candidates and rules are in `studies` and `claims`.

``tools/pick_settings.py multi_source`` writes here what the rules pick; a test holds it against the committed full run.
"""

PICKED: dict[str, dict[str, dict]] = {
    "CIFAR-10, i.i.d.": {
        "FedAvg": {"step": 0.1},
        "AFL": {"step": 0.3, "step_domains": 0.001},
        "AFL, λ fixed": {"step": 0.2},
        "FedAvg, τ = 1": {"step": 0.2},
    },
    "CIFAR-10, non-i.i.d.": {
        "FedAvg": {"step": 0.1},
        "AFL": {"step": 0.3, "step_domains": 0.001},
        "AFL, λ fixed": {"step": 0.2},
        "FedAvg, τ = 1": {"step": 0.2},
    },
    "MNIST, i.i.d.": {
        "FedAvg": {"step": 0.5},
        "AFL": {"step": 0.5, "step_domains": 1e-05},
        "AFL, λ fixed": {"step": 0.5},
        "FedAvg, τ = 1": {"step": 0.5},
    },
    "MNIST, non-i.i.d.": {
        "FedAvg": {"step": 0.5},
        "AFL": {"step": 0.5, "step_domains": 0.001},
        "AFL, λ fixed": {"step": 0.5},
        "FedAvg, τ = 1": {"step": 0.5},
    },
    "Fashion-MNIST, i.i.d.": {
        "FedAvg": {"step": 0.2},
        "AFL": {"step": 0.3, "step_domains": 0.001},
        "AFL, λ fixed": {"step": 0.3},
        "FedAvg, τ = 1": {"step": 0.3},
    },
    "Fashion-MNIST, non-i.i.d.": {
        "FedAvg": {"step": 0.1},
        "AFL": {"step": 0.3, "step_domains": 0.1},
        "AFL, λ fixed": {"step": 0.3},
        "FedAvg, τ = 1": {"step": 0.3},
    },
    "Adult": {
        "FedAvg": {"step": 1.0},
        "SCAFFOLD": {"step": 1.0},
        "AFL": {"step": 1.0, "step_domains": 0.003},
        "AgnosticFedAvg": {"step": 1.0, "step_domains": 0.1},
        "ApproxFedAvg": {"step": 1.0, "mu": 1.0},
        "FedMultiBoost": {"initial_step": 1.0},
        "IRM, federated": {"penalty": 1.0},
        "F-IRM game": {"step": 0.1},
        "FL Games": {"step": 0.03, "buffer": 0},
    },
    "coloured digits": {
        "FedAvg": {"step": 2.0},
        "SCAFFOLD": {"step": 1.0},
        "AFL": {"step": 2.4, "step_domains": 0.1},
        "AgnosticFedAvg": {"step": 0.9, "step_domains": 1.0},
        "ApproxFedAvg": {"step": 0.9, "mu": 100000.0},
        "FedMultiBoost": {"initial_step": 4.0},
        "IRM, federated": {"penalty": 100000.0, "l2": 0.002},
        "IRM, federated, one logit": {"penalty": 1000000.0, "l2": 0.002},
        "F-IRM game": {"step": 0.003, "stop_below": 0.7},
        "V-IRM game": {"step": 0.3, "stop_below": 0.7},
        "FL Games": {"step": 0.01, "buffer": 0},
    },
    "three questions": {"FedMultiBoost": {"initial_step": 0.5}},
    "Fashion-MNIST, other domains": {"AFL": {"domains": "two"}},
}
