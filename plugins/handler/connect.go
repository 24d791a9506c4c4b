package handler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
)

// Connection says to which nodes a program connects as a worker, and as what. Only Addresses is required.
type Connection struct {
	Addresses []string          // of the APIs of nodes: host:port, or unix: and a path; the slots are divided among them
	Handler   string            // name of the handler in the configuration of the nodes; "" if it is the only one that fits
	Labels    map[string]string // of this worker; the configuration may ask for some
	Token     string            // sent to the nodes as a bearer token; "" for none
	Log       *slog.Logger      // of the connections; nil is the standard error
}

// Environment variables from which [Program.Serve] takes the connection.
const (
	addressVariable = "TASKENGINE_ADDRESS"
	tokenVariable   = "TASKENGINE_TOKEN"
	handlerVariable = "TASKENGINE_WORKER_HANDLER"
	labelsVariable  = "TASKENGINE_WORKER_LABELS"
)

// Work runs tasks of the nodes in this process, as a worker of theirs, until ctx ends and the tasks that have begun by
// then are answered, or until every node has drained the worker. It connects again when a connection breaks. An error is
// one in c or in the program.
func (p Program) Work(ctx context.Context, c Connection) error {
	p.fillIn()
	switch {
	case len(p.Handlers) == 0:
		return errors.New("the program serves no task type")
	case len(c.Addresses) == 0:
		return errors.New("no address of a node is given: give host:port, or unix: and a path")
	}
	for _, a := range c.Addresses {
		if strings.TrimSpace(a) == "" || strings.Contains(a, "://") {
			return fmt.Errorf("%q is not the address of a node: give host:port, or unix: and a path", a)
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	var all sync.WaitGroup
	for i, address := range c.Addresses {
		d := &dialer{program: p, to: c, address: address, slots: share(p.Slots, len(c.Addresses), i), log: c.Log}
		all.Go(func() { d.run(ctx) })
	}
	all.Wait()
	return nil
}

// share returns the share of the i-th of n nodes in slots: at least 1.
func share(slots, n, i int) int {
	most := slots / n
	if i < slots%n {
		most++
	}
	return max(1, most)
}

// work runs tasks of the nodes that the environment names, until the process is asked to end.
func (p Program) work(addresses string) error {
	c := Connection{Addresses: strings.Split(addresses, ","), Handler: os.Getenv(handlerVariable), Token: os.Getenv(tokenVariable)}
	for i, a := range c.Addresses {
		c.Addresses[i] = strings.TrimSpace(a)
	}
	labels, err := parseLabels(os.Getenv(labelsVariable))
	if err != nil {
		return err
	}
	c.Labels = labels
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	return p.Work(ctx, c)
}

// parseLabels reads labels such as "region=eu,disk=fast".
func parseLabels(text string) (map[string]string, error) {
	labels := make(map[string]string)
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		key, value, ok := strings.Cut(part, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			return nil, fmt.Errorf("%s has %q: give NAME=value, separated by commas", labelsVariable, part)
		}
		labels[key] = strings.TrimSpace(value)
	}
	return labels, nil
}
