package webhook

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// podsPath is where the API server sends pods.
const podsPath = "/pods"

// maxReview bounds a request: etcd takes no larger object than 1.5 MiB, and a
// review holds it once.
const maxReview = 4 << 20

// handler answers the API server, and /healthz.
func handler(r *rules) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	mux.HandleFunc("POST "+podsPath, func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, maxReview))
		if err != nil {
			http.Error(w, "the review is too large", http.StatusRequestEntityTooLarge)
			return
		}
		answer, err := r.review(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	})
	return mux
}

// review answers one AdmissionReview.
func (r *rules) review(body []byte) ([]byte, error) {
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil {
		return nil, fmt.Errorf("not an AdmissionReview: %w", err)
	}
	if review.Request == nil {
		return nil, fmt.Errorf("not an AdmissionReview: no request in it")
	}
	response := r.respond(review.Request)
	response.UID = review.Request.UID
	review.Request, review.Response = nil, response
	return json.Marshal(review)
}

func (r *rules) respond(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	var before v1.Pod
	if err := json.Unmarshal(request.Object.Raw, &before); err != nil {
		return denied(fmt.Errorf("not a pod: %w", err))
	}
	after := before.DeepCopy()
	warnings, err := r.admit(after)
	if err != nil {
		klog.V(2).InfoS("Krux: pod denied", "namespace", request.Namespace, "pod", before.Name+before.GenerateName, "why", err)
		return denied(err)
	}
	patch, err := json.Marshal(difference(&before, after))
	if err != nil {
		return denied(err)
	}
	kind := admissionv1.PatchTypeJSONPatch
	return &admissionv1.AdmissionResponse{Allowed: true, Patch: patch, PatchType: &kind, Warnings: warnings}
}

func denied(err error) *admissionv1.AdmissionResponse {
	const unprocessable = 422
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status: metav1.StatusFailure, Code: unprocessable, Reason: metav1.StatusReasonInvalid, Message: "krux: " + err.Error(),
	}}
}

// operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// difference covers the fields that admit touches, and only those: others that
// this program does not know of stay as they are.
func difference(before, after *v1.Pod) []operation {
	patch := []operation{}
	add := func(path string, value any) { patch = append(patch, operation{"add", path, value}) }
	if !maps.Equal(before.Annotations, after.Annotations) {
		add("/metadata/annotations", after.Annotations)
	}
	if !reflect.DeepEqual(before.Spec.RuntimeClassName, after.Spec.RuntimeClassName) {
		add("/spec/runtimeClassName", after.Spec.RuntimeClassName)
	}
	if before.Spec.SchedulerName != after.Spec.SchedulerName {
		add("/spec/schedulerName", after.Spec.SchedulerName)
	}
	for list, pair := range map[string][2][]v1.Container{
		"initContainers": {before.Spec.InitContainers, after.Spec.InitContainers},
		"containers":     {before.Spec.Containers, after.Spec.Containers},
	} {
		for i := range pair[0] {
			was, is := &pair[0][i].Resources, &pair[1][i].Resources
			path := fmt.Sprintf("/spec/%s/%d/resources/", list, i)
			if !reflect.DeepEqual(was.Limits, is.Limits) {
				add(path+"limits", is.Limits)
			}
			if !reflect.DeepEqual(was.Requests, is.Requests) {
				add(path+"requests", is.Requests)
			}
		}
	}
	return patch
}
