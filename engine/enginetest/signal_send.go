package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/storagetest"
	"github.com/taskengine/taskengine/task"
)

var signalSendScenarios = []scenario{
	{"signals are sent with the end of an attempt, to an id and to a key", func(n *node) { sends(n, false) }},
	{"signals are sent by the transaction that ends an attempt, to an id and to a key", func(n *node) { sends(n, true) }},
	{"a signal to a task that is missing, has ended or does not wait is dropped, and its sender is done", sendsInVain},
	{"nothing is sent by an attempt that fails, was cancelled, or whose transaction is rolled back", sendsNothing},
	{"an invalid signal fails the attempt, and nothing of it is sent", sendsInvalid},
	{"signals of one task to another arrive in their order", sendsInOrder},
	{"tasks that wait for signals of each other get each once", func(n *node) { chats(n, nil) }},
	{"tasks get each signal of each other once, though the store fails now and then", func(n *node) {
		chats(n, newWeather(8, func(call storagetest.Call, fault error) storagetest.Fault {
			if call == storagetest.Get {
				return storagetest.Fault{}
			}
			return storagetest.Fault{Before: fault}
		}))
	}},
	{"tasks get each signal of each other once, though the store does not say whether it failed", func(n *node) { chats(n, newWeather(5, unsaid)) }},
	{"of a signal that another task sends, the time and a cancel, one ends a wait", sendsOrTimes},
	{"a transaction has its task wait for a signal if and only if it commits", waitsByTx},
}

// untilDone retries for ever, and soon.
func untilDone(p *policy.Type) {
	p.Retry = policy.Retry{Max: policy.Forever, Backoff: policy.Backoff{Kind: policy.Exponential, Initial: time.Millisecond, Factor: 1, Max: time.Millisecond}}
}

// noSignalsOnTheWay waits until nothing carries a signal any more.
func (n *node) noSignalsOnTheWay() {
	n.Helper()
	n.eventually("no signal is on its way", func() bool {
		page, err := n.store.(storage.Inspector).List(n.ctx, storage.ListQuery{Filter: storage.Filter{Types: []string{"taskengine.relay"}}, Limit: 1, Scan: 1000})
		rows := page.Tasks
		return err == nil && len(rows) == 0
	})
}

func sends(n *node, within bool) {
	var to task.ID
	n.start(types(10, nil, "order", "payment"), map[string]handle{"order": untilPaid(time.Hour), "payment": func(ctx context.Context, t *task.Task) ([]byte, error) {
		signals := []task.SignalRequest{{To: to, Name: "paid", Data: []byte("42")}, {Type: "order", Key: string(t.Payload), Name: "refused", Data: []byte("43")}}
		if !within {
			var again time.Time
			if t.Payload[0] == 'a' {
				again = time.Now().Add(time.Hour)
			}
			return []byte("sent"), task.Again(again, task.WithSignals(signals[0]), task.WithSignals(signals[1]))
		}
		return nil, n.store.Update(ctx, func(tx storage.Tx) error {
			if err := n.opened().SignalTx(ctx, tx, signals...); err != nil {
				return err
			}
			if t.Payload[0] == 'a' {
				return engine.AgainTx(ctx, tx, []byte("sent"), time.Now().Add(time.Hour))
			}
			return engine.FinishTx(ctx, tx, []byte("sent"))
		})
	}})
	for payload, state := range map[string]task.State{"done": task.Done, "again": task.Waiting} {
		to = n.awaiting(engine.Request{Type: "order"})
		byKey := n.awaiting(engine.Request{Type: "order", Key: payload})
		sender := n.submit(engine.Request{Type: "payment", Payload: []byte(payload)})[0]
		n.wait(to, byKey)
		if got := n.expect(to, task.Done); string(got.Result) != "signal paid 42" {
			n.Errorf("%s: the result is %q", payload, got.Result)
		}
		if got := n.expect(byKey, task.Done); string(got.Result) != "signal refused 43" {
			n.Errorf("%s: by key: the result is %q", payload, got.Result)
		}
		if got := n.get(sender); got.State != state || string(got.Result) != "sent" || got.Attempt > 1 {
			n.Errorf("the sender: %v", got)
		}
	}
	n.noSignalsOnTheWay()
}

func sendsInVain(n *node) {
	var ended, waits task.ID
	n.start(types(10, nil, "order", "payment"), map[string]handle{"order": untilPaid(time.Hour), "payment": func(context.Context, *task.Task) ([]byte, error) {
		return nil, task.Again(time.Time{}, task.WithSignals(
			task.SignalRequest{To: task.ID{9}, Name: "paid", Keep: true}, task.SignalRequest{Type: "order", Key: "none", Name: "paid", Keep: true},
			task.SignalRequest{To: ended, Name: "paid", Keep: true}, task.SignalRequest{To: waits, Name: "other"},
			task.SignalRequest{To: waits, Name: "paid", Data: make([]byte, 2<<20)}, task.SignalRequest{To: waits, Type: "payment", Name: "paid"},
			task.SignalRequest{To: waits, Type: "order", Name: "kept", Keep: true, Data: []byte("k")}))
	}})
	waits = n.awaiting(engine.Request{Type: "order"})
	ended = n.awaiting(engine.Request{Type: "order"})
	n.signaled(engine.Signal{To: ended, Name: "paid"}, engine.SignalWoke)
	n.wait(ended)
	sender := n.submit(engine.Request{Type: "payment"})[0]
	n.wait(sender)
	n.expect(sender, task.Done)
	n.noSignalsOnTheWay()
	if got := n.get(waits); got.State != task.Waiting || len(got.Signals.Kept) != 1 || got.Signals.Kept[0].Name != "kept" || string(got.Signals.Kept[0].Data) != "k" {
		n.Errorf("the other task is %v, with %+v", got, got.Signals)
	}
}

func sendsNothing(n *node) {
	var to task.ID
	began, gate := make(chan struct{}), make(chan struct{})
	n.start(types(10, nil, "order", "payment"), map[string]handle{"order": untilPaid(time.Hour), "payment": func(ctx context.Context, t *task.Task) ([]byte, error) {
		signal := task.SignalRequest{To: to, Name: "paid", Keep: true}
		switch string(t.Payload) {
		case "too large":
			return make([]byte, 2<<20), task.Again(time.Time{}, task.WithSignals(signal))
		case "rolled back":
			err := n.store.Update(ctx, func(tx storage.Tx) error {
				return errors.Join(n.opened().SignalTx(ctx, tx, signal), engine.FinishTx(ctx, tx, nil), errNo)
			})
			return nil, task.Permanent(err)
		}
		close(began)
		<-gate
		return nil, task.Again(time.Time{}, task.WithSignals(signal))
	}})
	to = n.awaiting(engine.Request{Type: "order"})
	for _, payload := range []string{"too large", "rolled back"} {
		id := n.submit(engine.Request{Type: "payment", Payload: []byte(payload)})[0]
		n.wait(id)
		n.expect(id, task.Error)
	}
	id := n.submit(engine.Request{Type: "payment"})[0]
	receive(n, "the handler begins", began)
	if _, err := n.Cancel(n.ctx, task.Ref{ID: id}, ""); err != nil {
		n.Fatal(err)
	}
	close(gate)
	n.eventually("the handler has returned", func() bool { return n.Stats().Running == 0 })
	n.noSignalsOnTheWay()
	if got := n.get(to); got.State != task.Waiting || len(got.Signals.Kept) > 0 {
		n.Errorf("a signal arrived: %v, %+v", got, got.Signals)
	}
}

func sendsInvalid(n *node) {
	var to task.ID
	n.start(types(10, func(p *policy.Type) { p.Retry.Max = 1 }, "order", "payment"), map[string]handle{"order": untilPaid(time.Hour), "payment": func(ctx context.Context, t *task.Task) ([]byte, error) {
		good := task.SignalRequest{To: to, Name: "paid"}
		bad := []task.SignalRequest{
			{To: to},
			{Name: "paid"},
			{Type: "order", Name: "paid"},
			{To: to, Name: strings.Repeat("x", task.MaxSignalName+1)},
			{Type: "order", Key: "7", Name: "paid", Data: make([]byte, 2<<20)},
			{Type: "taskengine.schedule", Key: "7", Name: "paid"},
		}[t.Payload[0]-'0']
		err := n.store.Update(ctx, func(tx storage.Tx) error { return n.opened().SignalTx(ctx, tx, good, bad) })
		if !errors.Is(err, engine.ErrInvalid) {
			n.Errorf("in a transaction: %v", err)
		}
		return nil, task.Again(time.Time{}, task.WithSignals(good, bad))
	}})
	to = n.awaiting(engine.Request{Type: "order"})
	for i := range 6 {
		id := n.submit(engine.Request{Type: "payment", Payload: strconv.AppendInt(nil, int64(i), 10)})[0]
		n.wait(id)
		if got := n.expect(id, task.Error); !strings.Contains(got.LastError, "signal 2 of 2") {
			n.Errorf("%d: %s", i, got.LastError)
		}
	}
	n.noSignalsOnTheWay()
	if got := n.get(to); got.State != task.Waiting {
		n.Errorf("a signal arrived: %v", got)
	}
}

func sendsInOrder(n *node) {
	const rounds, each = 6, 8
	var to task.ID
	n.start(types(10, nil, "list", "count"), map[string]handle{
		"list": func(_ context.Context, t *task.Task) ([]byte, error) {
			got := t.Checkpoint()
			if wake := t.Woken(); wake.By == task.BySignal {
				got = append(append(slices.Clip(got), wake.Signal.Data...), ' ')
			}
			if strings.Count(string(got), " ") == rounds*each {
				return got, nil
			}
			return nil, task.WaitFor([]string{"next"}, time.Time{}, task.WithCheckpoint(got))
		},
		"count": func(_ context.Context, t *task.Task) ([]byte, error) {
			round, _ := strconv.Atoi(string(t.Checkpoint()))
			var signals []task.SignalRequest
			for i := range each {
				signals = append(signals, task.SignalRequest{To: to, Name: "next", Data: fmt.Append(nil, round*each+i), Keep: true})
			}
			var again time.Time
			if round+1 < rounds {
				again = time.Now()
			}
			return nil, task.Again(again, task.WithSignals(signals...), task.WithCheckpoint(strconv.AppendInt(nil, int64(round+1), 10)))
		},
	})
	to = n.awaiting(engine.Request{Type: "list"})
	n.submit(engine.Request{Type: "count"})
	n.wait(to)
	for i, got := range strings.Fields(string(n.expect(to, task.Done).Result)) {
		if got != strconv.Itoa(i) {
			n.Fatalf("signal %d is %s", i, got)
		}
	}
}

// chats lets tasks send signals to each other, some of them by transactions, and wait for the signals of the others. Each task
// must get each signal once.
func chats(n *node, w *weather) {
	const tasks, rounds = 6, 8
	if w != nil {
		n.config.Store = storagetest.Faulty(n.store, w.decide)
	}
	key := func(i int) string { return fmt.Sprint("member ", i) }
	var ids []task.ID // of the first half, which gets its signals by ids
	ready := make(chan struct{})
	set := types(10, untilDone, "chat")
	n.start(set, map[string]handle{"chat": func(ctx context.Context, t *task.Task) ([]byte, error) {
		<-ready
		me, _ := strconv.Atoi(strings.TrimPrefix(t.Key, "member "))
		state := string(t.Checkpoint())
		sent, got, _ := strings.Cut(state, "|")
		if wake := t.Woken(); wake.By == task.BySignal {
			got += string(wake.Signal.Data) + " "
		}
		round, _ := strconv.Atoi(sent)
		var signals []task.SignalRequest
		if round < rounds {
			for i := range tasks {
				s := task.SignalRequest{Name: "word", Keep: true, Data: fmt.Appendf(nil, "%d-%d", me, round)}
				if i < tasks/2 {
					s.To = ids[i]
				} else {
					s.Type, s.Key = "chat", key(i)
				}
				signals = append(signals, s)
			}
			round++
		}
		checkpoint := fmt.Appendf(nil, "%d|%s", round, got)
		ends := round == rounds && strings.Count(got, " ") >= tasks*rounds
		if rng := rand.IntN(8); rng == 0 {
			return nil, errNo
		}
		if me%2 == 0 {
			switch {
			case ends:
				return []byte(got), task.Again(time.Time{}, task.WithSignals(signals...))
			case round < rounds:
				return nil, task.WaitFor([]string{"word"}, time.Now().Add(time.Millisecond), task.WithCheckpoint(checkpoint), task.WithSignals(signals...))
			}
			return nil, task.WaitFor([]string{"word"}, time.Time{}, task.WithCheckpoint(checkpoint), task.WithSignals(signals...))
		}
		return nil, n.config.Store.Update(ctx, func(tx storage.Tx) error {
			if err := n.opened().SignalTx(ctx, tx, signals...); err != nil {
				return err
			}
			switch {
			case ends:
				return engine.FinishTx(ctx, tx, []byte(got))
			case round < rounds:
				return engine.WaitTx(ctx, tx, nil, []string{"word"}, time.Now().Add(time.Millisecond), task.WithCheckpoint(checkpoint))
			}
			return engine.WaitTx(ctx, tx, nil, []string{"word"}, time.Time{}, task.WithCheckpoint(checkpoint))
		})
	}})
	all := n.submit(repeat(tasks, func(i int) engine.Request { return engine.Request{Type: "chat", Key: key(i)} })...)
	ids = all[:tasks/2]
	if w != nil {
		w.quiet.Store(false)
	}
	close(ready)
	n.eventually("all have sent their words", func() bool {
		return !slices.ContainsFunc(all, func(id task.ID) bool {
			t := n.get(id)
			return t.State.Live() && !strings.HasPrefix(string(t.Checkpoint()), strconv.Itoa(rounds))
		})
	})
	if w != nil {
		w.clear()
	}
	n.wait(all...)
	n.noSignalsOnTheWay()
	var want []string
	for i := range tasks {
		for round := range rounds {
			want = append(want, fmt.Sprintf("%d-%d", i, round))
		}
	}
	for i, id := range all {
		got := strings.Fields(string(n.expect(id, task.Done).Result))
		if slices.Sort(got); !slices.Equal(got, want) {
			n.Errorf("task %d has got %v", i, got)
		}
	}
}

// sendsOrTimes ends waits by signals of tasks, their time and users at about the same time.
func sendsOrTimes(n *node) {
	const tasks = 40
	n.start(types(10, nil, "order", "payment"), map[string]handle{"order": untilPaid(30 * time.Millisecond), "payment": func(_ context.Context, t *task.Task) ([]byte, error) {
		return nil, task.Again(time.Time{}, task.WithSignals(task.SignalRequest{Type: "order", Key: string(t.Payload), Name: "paid", Data: t.Payload}))
	}})
	ids := n.submit(repeat(tasks, func(i int) engine.Request { return engine.Request{Type: "order", Key: strconv.Itoa(i)} })...)
	soon := time.Now()
	n.submit(repeat(tasks, func(i int) engine.Request {
		return engine.Request{Type: "payment", Payload: strconv.AppendInt(nil, int64(i), 10), At: soon.Add(time.Duration(i) * time.Millisecond)}
	})...)
	cancelled := make([]bool, tasks)
	for i := 0; i < tasks; i += 4 {
		_, err := n.Cancel(n.ctx, task.Ref{ID: ids[i]}, "")
		if cancelled[i] = err == nil; err != nil && !errors.Is(err, engine.ErrNotAllowed) {
			n.Error(err)
		}
	}
	n.wait(ids...)
	n.noSignalsOnTheWay()
	ends := map[string]int{}
	for i, id := range ids {
		t := n.get(id)
		by, data, _ := strings.Cut(string(t.Result), " ")
		ends[by+" "+t.State.String()]++
		switch {
		case (t.State == task.Cancelled) != cancelled[i]:
			n.Errorf("task %d is %v, cancelled: %v", i, t.State, cancelled[i])
		case t.State == task.Cancelled:
		case t.State != task.Done || by == "signal" && data != fmt.Sprint("paid ", i):
			n.Errorf("task %d is %v with %q", i, t.State, t.Result)
		}
		if calls := n.ledger.runs(id); calls > 2 {
			n.Errorf("the handler of task %d was called %d times", i, calls)
		}
	}
	n.Logf("waits ended by: %v", ends)
}

func waitsByTx(n *node) {
	n.start(types(10, nil, "order"), map[string]handle{"order": func(ctx context.Context, t *task.Task) ([]byte, error) {
		if w := t.Woken(); w.By != task.NotWoken {
			return fmt.Appendf(nil, "%v %s %s", w.By, w.Signal.Data, t.Checkpoint()), nil
		}
		err := n.store.Update(ctx, func(tx storage.Tx) error {
			err := engine.WaitTx(ctx, tx, []byte("r"), []string{"paid"}, time.Time{}, task.WithCheckpoint([]byte("c")))
			if t.Attempt == 1 {
				err = errors.Join(err, errNo)
			}
			return err
		})
		return nil, err
	}})
	id := n.awaiting(engine.Request{Type: "order"})
	if got := n.get(id); len(got.History) != 2 || string(got.Result) != "r" {
		n.Errorf("it waits: %v, %+v", got, got.History)
	}
	n.signaled(engine.Signal{To: id, Name: "paid", Data: []byte("42")}, engine.SignalWoke)
	n.wait(id)
	if got := n.expect(id, task.Done); string(got.Result) != "signal 42 c" {
		n.Errorf("the result is %q", got.Result)
	}
	early := n.submit(engine.Request{Type: "order", At: time.Now().Add(300 * time.Millisecond)})[0]
	n.signaled(engine.Signal{To: early, Name: "paid", Data: []byte("early"), Keep: true}, engine.SignalKept)
	n.wait(early)
	if got := n.expect(early, task.Done); string(got.Result) != "signal early c" {
		n.Errorf("with an early signal the result is %q", got.Result)
	}
}
