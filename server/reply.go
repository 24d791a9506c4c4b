package server

import (
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/engine"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
)

// text returns s as valid UTF-8, which protobuf requires. Handlers, and programs that embed the engine, may have written
// anything.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func texts(all []string) []string {
	valid := make([]string, len(all))
	for i, s := range all {
		valid[i] = text(s)
	}
	return valid
}

func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// messageOf returns the message of a task.
func messageOf(t *task.Task) *taskenginev1.Task {
	m := summaryOf(t)
	m.Payload, m.Result, m.Checkpoint = t.Payload, t.Result, t.Checkpoint()
	if w := t.Woken(); w.By == task.BySignal {
		m.WokenSignal = signalMessage(&w.Signal)
	}
	if t.Signals != nil {
		for i := range t.Signals.Kept {
			m.KeptSignals = append(m.KeptSignals, signalMessage(&t.Signals.Kept[i]))
		}
	}
	m.Children = childrenOf(t)
	m.After = afterOf(t)
	m.Followers = idTexts(t.Children.Set(task.FollowersSet).Tasks())
	return m
}

func afterOf(t *task.Task) *taskenginev1.After {
	s := t.Children.Set(task.AfterSet)
	if s == nil {
		return nil
	}
	return &taskenginev1.After{Tasks: idTexts(s.Tasks()), Done: s.Done, Failed: s.Failed, Cancelled: s.Cancelled, Any: s.Await > 0 && !s.OrFailed}
}

func signalMessage(s *task.Signal) *taskenginev1.ReceivedSignal {
	return &taskenginev1.ReceivedSignal{Name: text(s.Name), At: stamp(s.At), Data: s.Data}
}

func childrenOf(t *task.Task) (ms []*taskenginev1.ChildSet) {
	if t.Children == nil {
		return nil
	}
	for _, s := range t.Children.Sets {
		if !s.IsOfChildren() {
			continue
		}
		m := &taskenginev1.ChildSet{
			Name: text(s.Name), Added: s.Added, Done: s.Done, Failed: s.Failed, Cancelled: s.Cancelled, Awaits: s.Await, OrFailed: s.OrFailed,
		}
		if s.IsOpen() {
			m.Awaits, m.Open = 0, true
		}
		ms = append(ms, m)
	}
	return ms
}

// summaryOf returns the message of a task without payload, result, checkpoint, signals and children.
func summaryOf(t *task.Task) *taskenginev1.Task {
	m := &taskenginev1.Task{
		Id: t.ID.String(), Type: text(t.Type), State: t.State.String(), Version: t.Version,
		Attempt: t.Attempt, Crashes: t.Crashes, Priority: uint32(t.Priority),
		Key: text(t.Key), OrderingKey: text(t.OrderingKey),
		CreatedAt: stamp(t.CreatedAt), ReadyAt: stamp(t.ReadyAt), NextEventAt: stamp(t.NextEventAt),
		ExpiresAt: stamp(t.ExpiresAt), StartedAt: stamp(t.StartedAt), UpdatedAt: stamp(t.UpdatedAt),
		Error: text(t.LastError), Turn: turnOf(t.Turn), Tombstone: t.Tombstone, Node: text(t.Node),
		WokenBy: t.Woken().By.String(),
	}
	for _, name := range t.Awaits() {
		m.Awaits = append(m.Awaits, text(name))
	}
	if p := t.Parent; p != nil {
		m.Parent = &taskenginev1.Parent{Id: p.ID.String(), Name: text(p.Name), Index: p.Index}
	}
	if t.Boost > 0 {
		m.InheritedPriority = proto.Uint32(uint32(t.Rank().Priority))
	}
	if len(t.Headers) > 0 {
		m.Headers = make(map[string]string, len(t.Headers))
		for k, v := range t.Headers {
			m.Headers[text(k)] = text(v)
		}
	}
	if p := t.Progress(); p != (task.Progress{}) {
		m.Progress = &taskenginev1.Progress{Done: p.Done, Total: p.Total, Message: text(p.Message), At: stamp(p.At)}
	}
	for _, a := range t.History {
		m.History = append(m.History, &taskenginev1.Attempt{
			Number: a.Number, StartedAt: stamp(a.StartedAt), EndedAt: stamp(a.EndedAt),
			Outcome: a.Outcome.String(), Error: text(a.Error), Node: text(a.Node), By: text(a.By), Job: text(a.Job),
		})
	}
	return m
}

// turnOf returns the word for a turn; "" for that of a task that takes no part in the order of an ordering key.
func turnOf(t task.Turn) string {
	switch t {
	case task.Head:
		return "head"
	case task.Behind:
		return "behind"
	}
	return ""
}

func summariesOf(ts []*task.Task) []*taskenginev1.Task {
	ms := make([]*taskenginev1.Task, len(ts))
	for i, t := range ts {
		ms[i] = summaryOf(t)
	}
	return ms
}

func reasonsOf(rs []engine.Reason) []*taskenginev1.Reason {
	ms := make([]*taskenginev1.Reason, len(rs))
	for i, r := range rs {
		ms[i] = &taskenginev1.Reason{
			Code: r.Code, Text: text(r.Text), Limit: r.Limit, Value: text(r.Value),
			Used: int64(r.Used), Max: int64(r.Max), Until: stamp(r.Until), Holders: idTexts(r.Holders),
			Cluster: r.Cluster, Held: int64(r.Held), Waiting: int64(r.Waiting),
		}
		if !r.Head.IsZero() {
			ms[i].Head, ms[i].HeadState = r.Head.String(), r.HeadState.String()
		}
	}
	return ms
}

func idTexts(ids []task.ID) []string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	return texts
}
