package alerting

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/alert"
	"github.com/taskengine/taskengine/alert/duty"
	"github.com/taskengine/taskengine/server"
)

// testPatience is how long a test of a target may take.
const testPatience = 25 * time.Second

// managed implements [server.Alerts] by the alerts of one configuration.
type managed struct{ *Alerting }

var _ server.Alerts = managed{}

// List implements [server.Alerts]. While the coordinator of nodes with stores of their own cannot be read, it lists the
// alerts of this node.
func (a managed) List(ctx context.Context) (list server.AlertList, err error) {
	list.Silenced = make(map[alert.Key]string)
	o, err := a.store.Read(ctx)
	if err != nil {
		return list, err
	}
	all := []duty.Overview{o}
	if a.peers != nil {
		bounded, cancel := context.WithTimeout(ctx, readPatience)
		if o, err := a.peers.store.Read(bounded); err == nil {
			all = append(all, o)
		}
		cancel()
	}
	for _, o := range all {
		a.add(&list, o)
	}
	now := a.config.Engine.Now()
	for _, one := range list.Alerts {
		if i := slices.IndexFunc(list.Silences, func(s alert.Silence) bool { return s.Covers(one, now) }); i >= 0 {
			list.Silenced[one.Key] = list.Silences[i].ID
		}
	}
	slices.SortFunc(list.Alerts, func(a, b *alert.Alert) int {
		return strings.Compare(a.Rule+"\x00"+a.Subject+"\x00"+a.Node, b.Rule+"\x00"+b.Subject+"\x00"+b.Node)
	})
	slices.SortStableFunc(list.Unsent, func(a, b alert.Notification) int { return a.At.Compare(b.At) })
	return list, nil
}

// add adds the alerts and silences of one store.
func (a managed) add(list *server.AlertList, o duty.Overview) {
	now := a.config.Engine.Now()
	for _, s := range o.Silences {
		if now.Before(s.Until) {
			list.Silences = append(list.Silences, s)
		}
	}
	for _, scope := range slices.Sorted(maps.Keys(o.States)) {
		list.Unsent = append(list.Unsent, o.States[scope].Queue...)
		list.Alerts = append(list.Alerts, o.States[scope].Alerts...)
	}
}

// silences returns where silences are kept: for nodes with stores of their own, where they coordinate.
func (a managed) silences() *duty.Store {
	if a.peers != nil {
		return a.peers.store
	}
	return a.store
}

// Test implements [server.Alerts].
func (a managed) Test(ctx context.Context, targets []string) ([]server.AlertTest, error) {
	if len(targets) == 0 {
		targets = slices.Collect(maps.Keys(a.targets))
	}
	targets = slices.Compact(slices.Sorted(slices.Values(targets)))
	for _, name := range targets {
		if a.targets[name] == nil {
			return nil, fmt.Errorf("%w: %.80q; the configuration of this node has %s", server.ErrNoTarget, name, strings.Join(slices.Sorted(maps.Keys(a.targets)), ", "))
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, testPatience, fmt.Errorf("the target did not answer within %v", testPatience))
	defer cancel()
	tests := make([]server.AlertTest, len(targets))
	var sends sync.WaitGroup
	for i, name := range targets {
		sends.Go(func() {
			begin := time.Now()
			err := a.targets[name].Send(ctx, alert.Notification{
				Version: 1, ID: newID(), At: a.config.Engine.Now(), Target: name, Node: a.config.Node, Status: alert.Firing, Test: true,
				Summary: "test of the alerts", Alerts: []alert.Item{},
			})
			tests[i] = server.AlertTest{Target: name, Err: err, Took: time.Since(begin)}
		})
	}
	sends.Wait()
	return tests, nil
}

// Silence implements [server.Alerts].
func (a managed) Silence(ctx context.Context, s alert.Silence, length time.Duration) (alert.Silence, error) {
	if rules := a.config.Config.Alerts.Rules; s.Rule != "" {
		if _, ok := rules[s.Rule]; !ok {
			return s, fmt.Errorf("%w: %.80q; the configuration of this node has %s", server.ErrNoRule, s.Rule, strings.Join(slices.Sorted(maps.Keys(rules)), ", "))
		}
	}
	s.ID, s.At = newID()[:8], a.config.Engine.Now().UTC().Truncate(time.Second)
	s.Until = s.At.Add(length)
	return s, a.silences().Silence(ctx, s)
}

// Unsilence implements [server.Alerts].
func (a managed) Unsilence(ctx context.Context, id string) error {
	err := a.silences().Unsilence(ctx, id)
	if errors.Is(err, duty.ErrNoSilence) && a.peers != nil { // of a time when the node was alone
		err = a.store.Unsilence(ctx, id)
	}
	if errors.Is(err, duty.ErrNoSilence) {
		return fmt.Errorf("%w: %.40q", server.ErrNoSilence, id)
	}
	return err
}

// newID returns an ID that no other has.
func newID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
