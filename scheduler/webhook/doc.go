// Package webhook is Krux's admission webhook: it completes and checks pods that
// ask for GPUs when they are created, so that a wrong request is denied at once
// with a sentence, and not found pending later.
//
// Order of a call: a profile turns another system's names into Krux's
// (profile.go), defaults are filled (mutate.go), the result is checked by the
// same code as in the scheduler (plugin.Check), totals for ResourceQuota are
// added. The answer is a JSON patch of the few fields that changed.
//
// It is no authority. The scheduler checks every pod again, the agent every
// grant, and who may write a grant is decided by the API server itself
// (deploy/manifests/40-guard.yaml): with the webhook down or removed nothing
// becomes unlimited.
//
// When it is down: the API server sends it only pods that ask for GPUs
// (matchConditions), and refuses just those (failurePolicy Fail). Plain pods
// never depend on it.
//
// It makes and renews its certificates itself (certificates.go) and keeps its
// own MutatingWebhookConfiguration (registration.go): the rules depend on the
// profiles, and the configuration holds the certificate of the authority.
package webhook
