package rendertest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// pod is the template of a pod, or a pod.
type pod struct {
	name   string
	labels map[string]string
	spec   *corev1.PodSpec
}

// pods are the pods of all objects.
func (r rendered) pods() (found []pod) {
	for name, o := range all[appsv1.Deployment](r) {
		found = append(found, pod{"deployment " + name, o.Spec.Template.Labels, &o.Spec.Template.Spec})
	}
	for name, o := range all[batchv1.Job](r) {
		found = append(found, pod{"job " + name, o.Spec.Template.Labels, &o.Spec.Template.Spec})
	}
	for name, o := range all[batchv1.CronJob](r) {
		template := &o.Spec.JobTemplate.Spec.Template
		found = append(found, pod{"cronjob " + name, template.Labels, &template.Spec})
	}
	for name, o := range all[corev1.Pod](r) {
		found = append(found, pod{"pod " + name, o.Labels, &o.Spec})
	}
	return found
}

func (p pod) containers() []corev1.Container {
	return slices.Concat(p.spec.InitContainers, p.spec.Containers)
}

// server is the pod of the Deployment.
func (r rendered) server() pod {
	d := one[appsv1.Deployment](r)
	return pod{"deployment", d.Spec.Template.Labels, &d.Spec.Template.Spec}
}

// references returns references to what does not exist.
func (r rendered) references(secrets map[string]map[string]string) (problems []string) {
	for _, p := range r.pods() {
		for _, problem := range slices.Concat(r.podReferences(p, secrets), p.mounts(), p.probes()) {
			problems = append(problems, p.name+": "+problem)
		}
	}
	return append(problems, r.selections()...)
}

func (r rendered) podReferences(p pod, secrets map[string]map[string]string) (problems []string) {
	wantSecret := func(name, key string) {
		if keys, there := secrets[name]; !there || key != "" && keys[key] == "" {
			problems = append(problems, fmt.Sprintf("Secret %q has no %q", name, key))
		}
	}
	if account := p.spec.ServiceAccountName; account != "existing" && all[corev1.ServiceAccount](r)[account] == nil {
		problems = append(problems, "ServiceAccount "+account+" does not exist")
	}
	for _, v := range p.spec.Volumes {
		if s := v.Secret; s != nil {
			wantSecret(s.SecretName, "")
			for _, item := range s.Items {
				wantSecret(s.SecretName, item.Key)
			}
		}
		if c := v.ConfigMap; c != nil && c.Name != "existing-rules" && all[corev1.ConfigMap](r)[c.Name] == nil {
			problems = append(problems, "ConfigMap "+c.Name+" does not exist")
		}
	}
	for _, c := range p.containers() {
		for _, e := range c.Env {
			if e.ValueFrom != nil {
				wantSecret(e.ValueFrom.SecretKeyRef.Name, e.ValueFrom.SecretKeyRef.Key)
			}
		}
	}
	return problems
}

// mounts returns mounts without a volume, and volumes without a mount.
func (p pod) mounts() (problems []string) {
	mounted := map[string]bool{}
	for _, c := range p.containers() {
		paths := map[string]bool{}
		for _, m := range c.VolumeMounts {
			mounted[m.Name] = true
			if paths[m.MountPath] {
				problems = append(problems, "two mounts at "+m.MountPath)
			}
			paths[m.MountPath] = true
			if !slices.ContainsFunc(p.spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
				problems = append(problems, "no volume "+m.Name)
			}
		}
	}
	for _, v := range p.spec.Volumes {
		if !mounted[v.Name] {
			problems = append(problems, "volume "+v.Name+" is not mounted")
		}
	}
	return problems
}

func (p pod) probes() (problems []string) {
	for _, c := range p.spec.Containers {
		for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe} {
			if probe != nil && containerPort(c, probe.HTTPGet.Port) == 0 {
				problems = append(problems, "a probe has the port "+probe.HTTPGet.Port.String())
			}
		}
	}
	return problems
}

// containerPort is the number of a port, or 0 if the container has none of this name.
func containerPort(c corev1.Container, port intstr.IntOrString) int32 {
	for _, p := range c.Ports {
		if p.Name == port.StrVal {
			return p.ContainerPort
		}
	}
	return 0
}

// service is that of the clients.
func (r rendered) service() *corev1.Service {
	for _, s := range all[corev1.Service](r) {
		if s.Spec.Ports[0].Name == "http" {
			return s
		}
	}
	return nil
}

// selections returns what is wrong with the objects that select servers.
func (r rendered) selections() (problems []string) {
	deployment, server := one[appsv1.Deployment](r), r.server()
	container := server.spec.Containers[0]
	selects := func(what string, selector *metav1.LabelSelector) {
		s, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil || s.Empty() || !s.Matches(labels.Set(server.labels)) {
			problems = append(problems, fmt.Sprintf("%s selects %v, %v", what, s, err))
		}
		for _, p := range r.pods() {
			if !strings.HasPrefix(p.name, "deployment") && s.Matches(labels.Set(p.labels)) {
				problems = append(problems, what+" also selects "+p.name)
			}
		}
	}
	selects("Deployment", deployment.Spec.Selector)
	ports := 0
	for name, service := range all[corev1.Service](r) {
		selects("Service "+name, &metav1.LabelSelector{MatchLabels: service.Spec.Selector})
		for _, port := range service.Spec.Ports {
			if containerPort(container, port.TargetPort) != port.Port {
				problems = append(problems, fmt.Sprintf("Service %s has the port %+v", name, port))
			}
			if service.Spec.Type != corev1.ServiceTypeClusterIP && port.Name != "http" && port.Name != "grpc" {
				problems = append(problems, fmt.Sprintf("Service %s of type %s publishes the port %s", name, service.Spec.Type, port.Name))
			}
		}
		ports += len(service.Spec.Ports)
	}
	if ports != len(container.Ports) {
		problems = append(problems, "Services and container have other ports")
	}
	for _, c := range server.spec.TopologySpreadConstraints {
		selects("topology spread", c.LabelSelector)
	}
	if pdb := one[policyv1.PodDisruptionBudget](r); pdb != nil {
		selects("PodDisruptionBudget", pdb.Spec.Selector)
	}
	hpa := one[autoscalingv2.HorizontalPodAutoscaler](r)
	if hpa != nil && hpa.Spec.ScaleTargetRef != (autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: deployment.Name}) {
		problems = append(problems, fmt.Sprintf("the autoscaler scales %+v", hpa.Spec.ScaleTargetRef))
	}
	if (hpa == nil) != (deployment.Spec.Replicas != nil) {
		problems = append(problems, "either the autoscaler or the Deployment sets the number of servers")
	}
	if monitor := one[monitoringv1.ServiceMonitor](r); monitor != nil {
		selector, _ := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
		scraped := 0
		for _, service := range all[corev1.Service](r) {
			if selector.Matches(labels.Set(service.Labels)) &&
				slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == monitor.Spec.Endpoints[0].Port }) {
				scraped++
			}
		}
		if scraped != 1 {
			problems = append(problems, fmt.Sprintf("ServiceMonitor selects %d Services with the port %s", scraped, monitor.Spec.Endpoints[0].Port))
		}
	}
	return append(problems, r.policies(selects)...)
}

// policies returns what is wrong with the network policies: each pod but that of the test
// has one, and their ports exist.
func (r rendered) policies(selects func(string, *metav1.LabelSelector)) (problems []string) {
	policies := all[networkingv1.NetworkPolicy](r)
	if len(policies) == 0 {
		return nil
	}
	server := r.server()
	for name, policy := range policies {
		if strings.HasSuffix(name, "-rules") {
			continue
		}
		selects("NetworkPolicy "+name, &policy.Spec.PodSelector)
		for _, rule := range policy.Spec.Ingress {
			for _, port := range rule.Ports {
				if containerPort(server.spec.Containers[0], *port.Port) == 0 {
					problems = append(problems, "NetworkPolicy has the port "+port.Port.String())
				}
			}
		}
	}
	for _, p := range r.pods() {
		covered := p.labels["app.kubernetes.io/component"] == "test"
		for _, policy := range policies {
			s, _ := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
			covered = covered || s.Matches(labels.Set(p.labels))
		}
		if !covered {
			problems = append(problems, p.name+" has no NetworkPolicy")
		}
	}
	return problems
}

// hardening returns privileges that a pod has.
func (r rendered) hardening() (problems []string) {
	yes, no := true, false
	for _, p := range r.pods() {
		s := p.spec
		if c := s.SecurityContext; !reflect.DeepEqual(c.RunAsNonRoot, &yes) || c.RunAsUser == nil || *c.RunAsUser != 65532 ||
			c.SeccompProfile == nil || c.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault ||
			!reflect.DeepEqual(s.AutomountServiceAccountToken, &no) || !reflect.DeepEqual(s.EnableServiceLinks, &no) || s.HostNetwork || s.HostPID {
			problems = append(problems, p.name+" is not hardened")
		}
		for _, v := range s.Volumes {
			if v.Secret != nil && (v.Secret.DefaultMode == nil || *v.Secret.DefaultMode != 0o440) {
				problems = append(problems, p.name+": every user can read "+v.Name)
			}
		}
		for _, container := range p.containers() {
			c := container.SecurityContext
			if c == nil || !reflect.DeepEqual(c.AllowPrivilegeEscalation, &no) || !reflect.DeepEqual(c.ReadOnlyRootFilesystem, &yes) ||
				!reflect.DeepEqual(c.Capabilities, &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}) {
				problems = append(problems, p.name+": "+container.Name+" is not hardened")
			}
			if container.Resources.Limits.Memory().IsZero() || container.Resources.Requests.Cpu().IsZero() {
				problems = append(problems, p.name+": "+container.Name+" has no resources")
			}
		}
	}
	return problems
}
