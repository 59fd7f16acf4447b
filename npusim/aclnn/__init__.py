"""aclnn operators: contracts and checks, the registry, task chains, two-phase calls, the Device."""
