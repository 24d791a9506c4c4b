package duty_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/alert"
	"github.com/taskengine/taskengine/alert/duty"
	"github.com/taskengine/taskengine/alert/target"
	"github.com/taskengine/taskengine/coord/stored"
	"github.com/taskengine/taskengine/internal/smtptest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
)

// world outlives a node: it has the store, the facts, and the notifications of the target.
type world struct {
	settings *settings

	mu       sync.Mutex
	facts    []alert.Fact // guarded by mu
	accepted []string     // guarded by mu: notifications
	ids      []string     // guarded by mu: of all that were sent
	fails    error        // guarded by mu: the answer of the target
	hangs    bool         // guarded by mu: it does not answer
	errs     []error      // guarded by mu: the errors of the store that the looks got
}

// settings are the settings of a store in memory, which fail if the test says so.
type settings struct {
	storage.Settings
	mu    sync.Mutex
	fails error // guarded by mu
}

func (s *settings) failing() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fails
}

func (s *settings) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = err
}

func (s *settings) Setting(ctx context.Context, name string) ([]byte, error) {
	if err := s.failing(); err != nil {
		return nil, err
	}
	return s.Settings.Setting(ctx, name)
}

func (s *settings) SetSetting(ctx context.Context, name string, value []byte) error {
	if err := s.failing(); err != nil {
		return err
	}
	return s.Settings.SetSetting(ctx, name, value)
}

func newWorld(t *testing.T) *world {
	store := memory.New()
	t.Cleanup(func() { store.Close() })
	return &world{settings: &settings{Settings: store}}
}

// Send implements [target.Target].
func (w *world) Send(ctx context.Context, n alert.Notification) error {
	w.mu.Lock()
	w.ids = append(w.ids, n.ID)
	hangs, fails := w.hangs, w.fails
	if !hangs && fails == nil {
		w.accepted = append(w.accepted, fmt.Sprintf("%s: %s", n.Status, n.Summary))
	}
	w.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return fails
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) look(_ context.Context, _ duty.Overview, storeErr error) alert.Look {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errs = append(w.errs, storeErr)
	return alert.Look{At: time.Now(), Whole: []alert.Kind{alert.Errors}, Facts: slices.Clone(w.facts)}
}

func (w *world) config(scope string) duty.Config {
	return duty.Config{
		Store: duty.NewStore(stored.New(w.settings)), Targets: map[string]target.Target{"ops": w}, Look: w.look, Every: time.Second, Now: time.Now,
		Log: slog.New(slog.DiscardHandler),
		Machine: alert.Config{
			Scope: scope, Node: "a", Targets: []alert.Target{{Name: "ops"}},
			Rules: []alert.Rule{{Name: "errors", When: alert.Errors, AtLeast: 1, GroupWait: 5 * time.Second, Repeat: time.Hour, Targets: []string{"ops"}}},
		},
	}
}

// node runs a duty for a time. Then it is gone, as if it had been killed if nothing was being sent.
func (w *world) node(d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	duty.New(w.config(duty.SharedScope)).Keep(ctx)
}

func (w *world) expect(t *testing.T, want ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.accepted, want) {
		t.Fatalf("the target got %q, want %q", w.accepted, want)
	}
}

var inError = []alert.Fact{{Kind: alert.Errors, Subject: "mail", Value: 1}}

const (
	fires    = "firing: 1 task of type mail is in error"
	resolved = "resolved: resolved: 1 task of type mail is in error"
)

func TestRestartsLoseNothingAndRepeatNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.facts, w.hangs = inError, true
		w.node(10 * time.Second)
		w.expect(t)
		w.set(func() { w.hangs = false })
		w.node(10 * time.Second)
		w.expect(t, fires)
		if w.ids[0] != w.ids[1] {
			t.Errorf("the notification was sent with the IDs %v", w.ids)
		}
		w.node(30 * time.Minute)
		w.set(func() { w.facts = nil })
		w.node(time.Minute)
		w.expect(t, fires, resolved)
		w.node(2 * time.Hour)
		w.expect(t, fires, resolved)
	})
}

func TestAStoreThatFailsDoesNotKeepNotificationsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		broken := errors.New("no space left")
		go func() {
			time.Sleep(2500 * time.Millisecond)
			w.settings.fail(broken)
			w.set(func() { w.facts = inError })
			time.Sleep(time.Minute)
			w.expect(t, fires)
			w.settings.fail(nil)
		}()
		w.node(10*time.Minute + time.Second/2) // it does not end while it looks
		w.expect(t, fires)
		if !errors.Is(w.errs[10], broken) || w.errs[len(w.errs)-1] != nil {
			t.Errorf("the looks got %v", w.errs)
		}
		// The notifications of the meantime are stored, so the next node reports the end.
		w.set(func() { w.facts = nil })
		w.node(time.Minute)
		w.expect(t, fires, resolved)
	})
}

func TestASecondDutyOfTheSameScopeTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.facts = inError
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		ended := make(chan error, 2)
		c := w.config(duty.SharedScope) // with one store: its changes are compared with the stored value
		for range 2 {
			go func() { ended <- duty.New(c).Run(ctx) }()
		}
		if err := <-ended; err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the duty that came too late returned %v", err)
		}
		time.Sleep(time.Minute)
		cancel()
		<-ended
		w.expect(t, fires)
	})
}

func TestWhatANodeThatIsGoneHasLeftIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.facts = inError
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_ = duty.New(w.config(duty.NodeScope("b"))).Run(ctx)
		w.expect(t, fires)
		ctx, cancel = context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		_ = duty.Adopt(ctx, w.config(""), func() ([]string, bool) { return []string{"a"}, true })
		w.expect(t, fires, resolved)
		if o, err := w.config("").Store.Read(t.Context()); err != nil || len(o.States) > 0 {
			t.Errorf("it has left %v, %v", o.States, err)
		}
	})
}

func TestANodeThatDoesNotSayThatItEndsIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.config(duty.NodeScope("b"))
		c.IsNode = true
		gone := func(want ...string) {
			t.Helper()
			o, err := c.Store.Read(t.Context())
			if got := o.Gone([]string{"a"}); err != nil || !slices.Equal(got, want) {
				t.Errorf("gone are %v, %v, want %v", got, err, want)
			}
		}
		run := func() *duty.Duty {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			d := duty.New(c)
			_ = d.Run(ctx)
			return d
		}
		gone()
		d := run()
		gone("b")
		d.Leave(t.Context())
		gone()
		run()
		gone("b")
		for d, want := range map[time.Duration][]string{23 * time.Hour: {"b"}, 25 * time.Hour: {}} {
			synctest.Wait()
			run()
			ctx, cancel := context.WithTimeout(t.Context(), d)
			_ = duty.Adopt(ctx, c, func() ([]string, bool) { return []string{"a"}, true })
			cancel()
			gone(want...)
		}
	})
}

func TestTheEndOfANodeIsReportedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.config(duty.NodeScope("a"))
		c.Machine.Rules = append(c.Machine.Rules, alert.Rule{Name: "store", When: alert.StoreFailing, AtLeast: 1, For: time.Minute, GroupWait: time.Minute, Targets: []string{"ops"}})
		d := duty.New(c)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_ = d.Run(ctx)
		w.settings.fail(errors.New("no space left"))
		d.Last(t.Context(), alert.Look{At: time.Now(), Facts: []alert.Fact{{Kind: alert.StoreFailing, Node: "a", Value: 1}}})
		w.expect(t, "firing: node a cannot use its store")
	})
}

func TestSilencesAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		store := duty.NewStore(stored.New(w.settings))
		now := time.Now()
		for _, one := range []alert.Silence{
			{ID: "1", Rule: "errors", Until: now.Add(time.Minute), At: now},
			{ID: "2", Rule: "errors", Until: now.Add(time.Hour), At: now},
			{ID: "3", Rule: "x", Until: now.Add(3 * time.Hour), At: now.Add(2 * time.Minute)},
		} {
			if err := store.Silence(t.Context(), one); err != nil {
				t.Fatal(err)
			}
		}
		if o, err := store.Read(t.Context()); err != nil || len(o.Silences) != 2 || o.Silences[0].ID != "2" {
			t.Errorf("the silences are %v, %v", o.Silences, err)
		}
		w.facts = inError
		w.node(time.Minute)
		w.expect(t)
		if err := store.Unsilence(t.Context(), "2"); err != nil {
			t.Fatal(err)
		}
		if err := store.Unsilence(t.Context(), "2"); !errors.Is(err, duty.ErrNoSilence) {
			t.Errorf("the second time: %v", err)
		}
		w.node(time.Minute)
		w.expect(t, fires)
	})
}

// TestRealTargetsThatFailForAWhileGetEverything uses servers for HTTP and SMTP that refuse at first, and a
// clock that runs a hundred times as fast.
func TestRealTargetsThatFailForAWhileGetEverything(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	var refusals int
	var posted []alert.Notification
	refuse := func() bool {
		mu.Lock()
		defer mu.Unlock()
		refusals++
		return refusals <= 6
	}
	hook := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var n alert.Notification
		if err := json.NewDecoder(r.Body).Decode(&n); err != nil || refuse() {
			rw.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		posted = append(posted, n)
	}))
	defer hook.Close()
	mails := smtptest.Server{Answer: func(command, _ string) string {
		if command == "." && refuse() {
			return "451 later"
		}
		return ""
	}}
	mails.Start(t)

	begin := time.Now()
	now := func() time.Time { return begin.Add(100 * time.Since(begin)) }
	c := w.config(duty.SharedScope)
	c.Now, c.Every = now, 10*time.Millisecond
	c.Machine.Targets = []alert.Target{{Name: "hook"}, {Name: "mail"}}
	c.Machine.Rules[0].Targets, c.Machine.Rules[0].Repeat = []string{"hook", "mail"}, 0
	c.Targets = map[string]target.Target{
		"hook": target.NewWebhook(hook.URL, nil, 2*time.Minute),
		"mail": target.NewSMTP(target.SMTPConfig{Server: mails.Addr, Encryption: target.Plain, From: "a@example.com", To: []string{"b@example.com"}, Timeout: 2 * time.Minute, Log: c.Log}),
	}
	c.Look = func(ctx context.Context, o duty.Overview, err error) alert.Look {
		l := w.look(ctx, o, err)
		l.At = now()
		return l
	}
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { duty.New(c).Keep(ctx) })
	defer func() { cancel(); run.Wait() }()
	await := func(n int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			mu.Lock()
			got := len(posted)
			mu.Unlock()
			if got >= n && len(mails.Mails()) >= n {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d requests and %d mails arrived, want %d", got, len(mails.Mails()), n)
			}
		}
	}
	w.set(func() { w.facts = inError })
	await(1)
	w.set(func() { w.facts = nil })
	await(2)
	cancel()
	run.Wait()
	if len(posted) != 2 || posted[0].Status != alert.Firing || posted[1].Status != alert.Resolved || len(mails.Mails()) != 2 || refusals < 8 {
		t.Errorf("after %d tries %d mails arrived and %+v", refusals, len(mails.Mails()), posted)
	}
}
