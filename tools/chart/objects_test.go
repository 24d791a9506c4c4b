package chart

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// serviceMonitor has the fields of the ServiceMonitor of the Prometheus Operator that the chart uses.
type serviceMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		JobLabel  string               `json:"jobLabel"`
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port      string `json:"port"`
			Path      string `json:"path"`
			Interval  string `json:"interval"`
			Scheme    string `json:"scheme"`
			TLSConfig *struct {
				ServerName string `json:"serverName"`
				CA         *struct {
					Secret corev1.SecretKeySelector `json:"secret"`
				} `json:"ca"`
			} `json:"tlsConfig"`
		} `json:"endpoints"`
	} `json:"spec"`
}

// scaledObject has the fields of the ScaledObject of KEDA that the chart uses.
type scaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ScaleTargetRef struct {
			Kind string `json:"kind"`
			Name string `json:"name"`
		} `json:"scaleTargetRef"`
		MinReplicaCount int32 `json:"minReplicaCount"`
		MaxReplicaCount int32 `json:"maxReplicaCount"`
		Triggers        []struct {
			Type              string            `json:"type"`
			Metadata          map[string]string `json:"metadata"`
			AuthenticationRef *struct {
				Name string `json:"name"`
			} `json:"authenticationRef"`
		} `json:"triggers"`
	} `json:"spec"`
}

// triggerAuthentication has the fields of the TriggerAuthentication of KEDA that the chart uses.
type triggerAuthentication struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		SecretTargetRef []struct {
			Parameter string `json:"parameter"`
			Name      string `json:"name"`
			Key       string `json:"key"`
		} `json:"secretTargetRef"`
	} `json:"spec"`
}

// checkObject reports fields that the kind of an object does not have, doubled ones, and values of another type.
func checkObject(t *testing.T, text string) {
	t.Helper()
	var of metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(text), &of); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]any{
		"v1 ConfigMap": new(corev1.ConfigMap), "v1 Service": new(corev1.Service),
		"apps/v1 StatefulSet": new(appsv1.StatefulSet), "apps/v1 Deployment": new(appsv1.Deployment),
		"policy/v1 PodDisruptionBudget":           new(policyv1.PodDisruptionBudget),
		"monitoring.coreos.com/v1 ServiceMonitor": new(serviceMonitor),
		"keda.sh/v1alpha1 ScaledObject":           new(scaledObject),
		"keda.sh/v1alpha1 TriggerAuthentication":  new(triggerAuthentication),
	}
	into, ok := kinds[of.APIVersion+" "+of.Kind]
	if !ok {
		t.Fatalf("the chart has an object of an unexpected kind:\n%s", text)
	}
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Errorf("%s: %v\n%s", of.Kind, err, text)
	}
	switch o := into.(type) {
	case *appsv1.StatefulSet:
		checkPod(t, &o.Spec.Template, o.Spec.VolumeClaimTemplates...)
	case *appsv1.Deployment:
		checkPod(t, &o.Spec.Template)
	}
}

// checkPod reports rights that the restricted Pod Security Standard forbids, and mounts without a volume.
func checkPod(t *testing.T, p *corev1.PodTemplateSpec, claims ...corev1.PersistentVolumeClaim) {
	t.Helper()
	volumes := make(map[string]bool)
	for _, v := range p.Spec.Volumes {
		volumes[v.Name] = true
	}
	for _, c := range claims {
		volumes[c.Name] = true
	}
	if s := p.Spec.SecurityContext; !*s.RunAsNonRoot || *s.RunAsUser != 65532 || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the pod has more rights than it needs: %v", s)
	}
	for _, c := range append(p.Spec.InitContainers, p.Spec.Containers...) {
		s := c.SecurityContext
		if *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL" || len(s.Capabilities.Add) > 0 {
			t.Errorf("the container %s has more rights than it needs: %v", c.Name, s)
		}
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("the container %s mounts %s, and the pod has no such volume", c.Name, m.Name)
			}
		}
	}
}
