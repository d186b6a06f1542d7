"""RBAC and NetworkPolicy that a place needs, the least there is, as YAML to apply. Pure."""

from shelltie.settings.places import KubernetesPlace

_RIGHTS = """\
# What shelltie needs for the place {name}: `shelltie places apply {name} | kubectl apply -f -`
#
# Whoever may make pods in a namespace may read its secrets and use its accounts: give the pods a
# namespace of their own. A log-in for this account, for the kubeconfig of shelltie's user:
#   kubectl -n {namespace} create token shelltie --duration 24h
apiVersion: v1
kind: ServiceAccount
metadata: {{name: shelltie, namespace: {namespace}}}
automountServiceAccountToken: false
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: shelltie, namespace: {namespace}}}
rules:
- {{apiGroups: [""], resources: [pods], verbs: [create, delete, get, list, patch, watch]}}
- {{apiGroups: [""], resources: [pods/exec], verbs: [create, get]}}  # get: over a WebSocket
- {{apiGroups: [""], resources: [events], verbs: [list]}}            # why a pod does not start
- {{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create, delete, list, patch]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: shelltie, namespace: {namespace}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: shelltie}}
subjects:
- {{kind: ServiceAccount, name: shelltie, namespace: {namespace}}}
---
# Nobody reaches the pods and they reach nobody: shelltie comes in through exec, not the network.
# For those that need one, replace `egress: []` by what they may reach, such as the internet:
#   egress:
#   - {{to: [{{namespaceSelector: {{}}, podSelector: {{matchLabels: {{k8s-app: kube-dns}}}}}}]}}
#   - to:
#     - ipBlock:
#         cidr: 0.0.0.0/0
#         except: [10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 169.254.0.0/16]
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: shelltie, namespace: {namespace}}}
spec:
  podSelector: {{matchLabels: {{app.kubernetes.io/managed-by: shelltie}}}}
  policyTypes: [Ingress, Egress]
  ingress: []
  egress: []
"""


def rights(name: str, place: KubernetesPlace) -> str:
    """The objects to apply, in the namespace of the settings."""
    return _RIGHTS.format(name=name, namespace=place.namespace)
