package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"krux.io/krux/scheduler/plugin"
)

// settings are the command line.
type settings struct {
	kubeconfig, listen   string
	namespace, service   string
	url, scheduler       string
	profiles             []string
	largestGPU           uint64
	removeAndEnd         bool
	renewEvery, drainFor time.Duration
}

// NewCommand is krux-webhook.
func NewCommand() *cobra.Command {
	s := settings{renewEvery: time.Minute, drainFor: 5 * time.Second}
	command := &cobra.Command{
		Use:           "krux-webhook",
		Short:         "Admission webhook of Krux: completes and checks pods that ask for GPUs",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: false,
		RunE: func(*cobra.Command, []string) error {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return s.run(ctx)
		},
	}
	flags := command.Flags()
	flags.StringVar(&s.kubeconfig, "kubeconfig", "", "credentials; without it those of the pod that it runs in")
	flags.StringVar(&s.listen, "listen", ":9443", "address to serve HTTPS at")
	flags.StringVar(&s.namespace, "namespace", "krux-system", "namespace of the Service and of the certificate's Secret")
	flags.StringVar(&s.service, "service", "krux-webhook", "Service that the API server calls")
	flags.StringVar(&s.url, "url", "", "https://HOST:PORT that the API server calls instead of the Service")
	flags.StringVar(&s.scheduler, "scheduler-name", "", "schedulerName for pods that name none, when krux-scheduler is a second scheduler")
	flags.StringSliceVar(&s.profiles, "profiles", nil, "other systems whose pods are taken: hami")
	flags.Uint64Var(&s.largestGPU, "largest-gpu-mib", 0, "memory of the largest GPU that an autoscaler may bring, when no node shows it yet")
	flags.BoolVar(&s.removeAndEnd, "remove", false, "remove the webhook's registration and end")
	return command
}

func (s *settings) run(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return fmt.Errorf("credentials: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if s.removeAndEnd {
		return unregister(ctx, client)
	}
	listener, err := net.Listen("tcp", s.listen)
	if err != nil {
		return err
	}
	return s.serve(ctx, listener, client, config)
}

// hosts by which the API server may call.
func (s *settings) hosts() ([]string, error) {
	if s.url == "" {
		return []string{s.service + "." + s.namespace + ".svc"}, nil
	}
	parsed, err := url.Parse(s.url)
	if err != nil || parsed.Scheme != "https" || parsed.Hostname() == "" || parsed.Path != "" {
		return nil, fmt.Errorf("--url is %q: use https://HOST:PORT", s.url)
	}
	return []string{parsed.Hostname()}, nil
}

// serve until ctx ends; the listener is closed then.
func (s *settings) serve(ctx context.Context, listener net.Listener, client kubernetes.Interface, config *rest.Config) error {
	defer listener.Close()
	hosts, err := s.hosts()
	if err != nil {
		return err
	}
	chosen, err := chooseProfiles(s.profiles)
	if err != nil {
		return err
	}
	cards, err := s.watchCards(ctx, config)
	if err != nil {
		return err
	}
	var current atomic.Pointer[identity]
	keeper := &keeper{client, s.namespace, hosts, time.Now}
	refresh := func(ctx context.Context) error {
		fresh, err := keeper.ensure(ctx)
		if err != nil {
			return err
		}
		current.Store(fresh)
		return register(ctx, client, configuration(endpoint{s.url, s.namespace, s.service}, chosen, fresh.authorities))
	}
	server := &http.Server{
		Handler:           handler(&rules{profiles: chosen, scheduler: s.scheduler, largest: cards}),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 20 * time.Second, WriteTimeout: 20 * time.Second,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if id := current.Load(); id != nil {
				return &id.certificate, nil
			}
			return nil, errors.New("no certificate yet")
		}},
	}
	go wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := refresh(ctx); err != nil {
			klog.ErrorS(err, "Krux: certificate and registration, trying again")
		}
	}, s.renewEvery)
	go func() {
		<-ctx.Done()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.drainFor)
		defer cancel()
		_ = server.Shutdown(end)
	}()
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// watchCards follows the KruxNode objects for the largest GPU.
func (s *settings) watchCards(ctx context.Context, config *rest.Config) (func() uint64, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	largest := plugin.WatchLargestGPU(ctx, client)
	return func() uint64 { return max(largest(), s.largestGPU) }, nil
}
