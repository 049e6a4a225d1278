package rendertest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	envoyv1alpha1 "github.com/envoyproxy/gateway/api/v1alpha1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	kubejson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// object is a decoded object.
type object = metav1.Object

// types are the types of objects by apiVersion and kind.
var types = map[string]reflect.Type{
	"v1/ConfigMap":      reflect.TypeFor[corev1.ConfigMap](),
	"v1/Namespace":      reflect.TypeFor[corev1.Namespace](),
	"v1/Pod":            reflect.TypeFor[corev1.Pod](),
	"v1/Service":        reflect.TypeFor[corev1.Service](),
	"v1/ServiceAccount": reflect.TypeFor[corev1.ServiceAccount](),

	"apps/v1/Deployment":                     reflect.TypeFor[appsv1.Deployment](),
	"autoscaling/v2/HorizontalPodAutoscaler": reflect.TypeFor[autoscalingv2.HorizontalPodAutoscaler](),
	"batch/v1/CronJob":                       reflect.TypeFor[batchv1.CronJob](),
	"batch/v1/Job":                           reflect.TypeFor[batchv1.Job](),
	"networking.k8s.io/v1/Ingress":           reflect.TypeFor[networkingv1.Ingress](),
	"networking.k8s.io/v1/NetworkPolicy":     reflect.TypeFor[networkingv1.NetworkPolicy](),
	"policy/v1/PodDisruptionBudget":          reflect.TypeFor[policyv1.PodDisruptionBudget](),

	"monitoring.coreos.com/v1/PrometheusRule": reflect.TypeFor[monitoringv1.PrometheusRule](),
	"monitoring.coreos.com/v1/ServiceMonitor": reflect.TypeFor[monitoringv1.ServiceMonitor](),

	"gateway.envoyproxy.io/v1alpha1/BackendTrafficPolicy": reflect.TypeFor[envoyv1alpha1.BackendTrafficPolicy](),

	"gateway.networking.k8s.io/v1/Gateway":      reflect.TypeFor[gatewayv1.Gateway](),
	"gateway.networking.k8s.io/v1/GatewayClass": reflect.TypeFor[gatewayv1.GatewayClass](),
	"gateway.networking.k8s.io/v1/HTTPRoute":    reflect.TypeFor[gatewayv1.HTTPRoute](),
}

// decode decodes one document. Unknown and repeated fields are errors, and names match by
// case. A document without content is nil.
func decode(document string) (object, error) {
	content, err := yaml.YAMLToJSONStrict([]byte(document))
	if err != nil || string(content) == "null" {
		return nil, err
	}
	var header metav1.TypeMeta
	if err := kubejson.UnmarshalCaseSensitivePreserveInts(content, &header); err != nil {
		return nil, err
	}
	name := header.APIVersion + "/" + header.Kind
	of, known := types[name]
	if !known {
		return nil, fmt.Errorf("%q is of no known type", name)
	}
	decoded := reflect.New(of).Interface()
	strict, err := kubejson.UnmarshalStrict(content, decoded)
	if err = errors.Join(append(strict, err)...); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	found := decoded.(object)
	return found, checkMeta(found)
}

// checkMeta checks the name and the labels, which are strings to the types.
func checkMeta(o object) error {
	problems := validation.IsDNS1123Subdomain(o.GetName())
	switch o.(type) {
	case *corev1.Service:
		problems = append(problems, validation.IsDNS1035Label(o.GetName())...)
	case *batchv1.CronJob:
		if len(o.GetName()) > 52 { // its jobs add 11 characters
			problems = append(problems, "the name is too long")
		}
	}
	for key, value := range o.GetLabels() {
		problems = append(problems, validation.IsQualifiedName(key)...)
		problems = append(problems, validation.IsValidLabelValue(value)...)
	}
	if len(problems) > 0 {
		return fmt.Errorf("%s: %s", identify(o), strings.Join(problems, "; "))
	}
	return nil
}

// identify names an object by type and name.
func identify(o object) string {
	return strings.ToLower(reflect.TypeOf(o).Elem().Name()) + "/" + o.GetName()
}

// all are the objects of one type, by name.
func all[T any](r rendered) map[string]*T {
	found := map[string]*T{}
	for _, o := range r.objects {
		if typed, is := any(o).(*T); is {
			found[o.GetName()] = typed
		}
	}
	return found
}

// one is the only object of a type.
func one[T any](r rendered) *T {
	for _, found := range all[T](r) {
		return found
	}
	return nil
}
