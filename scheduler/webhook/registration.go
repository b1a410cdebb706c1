package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	admission "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const (
	configurationName = "krux"
	webhookName       = "pods.krux.io"
	// Answers take a millisecond; a user waits no longer than this for a dead one.
	timeoutSeconds = 5
)

// endpoint says how the API server reaches the webhook: by URL, or by Service.
type endpoint struct {
	url                string // https://HOST:PORT, or empty
	namespace, service string
}

func (e endpoint) clientConfig(authorities []byte) admission.WebhookClientConfig {
	config := admission.WebhookClientConfig{CABundle: authorities}
	if e.url != "" {
		url := e.url + podsPath
		config.URL = &url
		return config
	}
	path := podsPath
	config.Service = &admission.ServiceReference{Namespace: e.namespace, Name: e.service, Path: &path}
	return config
}

// configuration sends the webhook pods that ask for GPUs when they are created,
// and nothing else: when it is down, just these are refused.
func configuration(e endpoint, profiles []*profile, authorities []byte) *admission.MutatingWebhookConfiguration {
	fail, never, again := admission.Fail, admission.SideEffectClassNone, admission.IfNeededReinvocationPolicy
	scope, seconds := admission.NamespacedScope, int32(timeoutSeconds)
	return &admission.MutatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfiguration"},
		ObjectMeta: metav1.ObjectMeta{Name: configurationName},
		Webhooks: []admission.MutatingWebhook{{
			Name:         webhookName,
			ClientConfig: e.clientConfig(authorities),
			Rules: []admission.RuleWithOperations{{
				Operations: []admission.OperationType{admission.Create},
				Rule:       admission.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}, Scope: &scope},
			}},
			MatchConditions:         []admission.MatchCondition{{Name: "asks-for-gpus", Expression: asksForGPUs(profiles)}},
			FailurePolicy:           &fail,
			SideEffects:             &never,
			TimeoutSeconds:          &seconds,
			AdmissionReviewVersions: []string{"v1"},
			// Injected containers may ask for GPUs too.
			ReinvocationPolicy: &again,
		}},
	}
}

// asksForGPUs is the CEL expression for pods with names of ours or of a profile.
func asksForGPUs(profiles []*profile) string {
	test := "n.startsWith('krux.io/')"
	for _, p := range profiles {
		test += fmt.Sprintf(" || n in ['%s']", strings.Join(p.resourceNames(), "', '"))
	}
	return fmt.Sprintf("(object.spec.containers + object.spec.?initContainers.orValue([])).exists(c, "+
		"c.?resources.limits.orValue({}).exists(n, %s) || c.?resources.requests.orValue({}).exists(n, %s))", test, test)
}

// register writes the configuration; unchanged, it costs the API server no write.
func register(ctx context.Context, client kubernetes.Interface, config *admission.MutatingWebhookConfiguration) error {
	data, err := json.Marshal(config)
	if err != nil {
		return err
	}
	force := true
	_, err = client.AdmissionregistrationV1().MutatingWebhookConfigurations().Patch(ctx, configurationName, types.ApplyPatchType, data,
		metav1.PatchOptions{FieldManager: "krux-webhook", Force: &force})
	if err != nil {
		return fmt.Errorf("writing MutatingWebhookConfiguration %s: %w", configurationName, err)
	}
	return nil
}

// unregister removes it: pods are then created unchecked, and the scheduler
// refuses what is wrong.
func unregister(ctx context.Context, client kubernetes.Interface) error {
	err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(ctx, configurationName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing MutatingWebhookConfiguration %s: %w", configurationName, err)
	}
	return nil
}
