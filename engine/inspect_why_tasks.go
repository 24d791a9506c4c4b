package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/task"
)

// isBehind reports whether the order of its ordering key keeps a task from running.
func isBehind(t *task.Task, now time.Time) bool {
	return t.Turn == task.Behind && (t.State == task.Submitted || t.State == task.Waiting && !t.NextEventAt.IsZero() && !t.NextEventAt.After(now))
}

// whyBehind returns why a task does not run that is behind another: that one, and a pause of its type.
func (e *Engine) whyBehind(ctx context.Context, t *task.Task) []Reason {
	rs := []Reason{e.behind(ctx, t)}
	e.decide(func(c *core.Core, now time.Time) {
		if r, ok := e.unwritten(t); ok {
			rs = []Reason{r}
			return
		}
		rs = append(rs, waits(now, t, c.Why(now, t), e.attemptsOf(t))...)
	})
	return rs
}

// behind returns why a task does not run that is behind the head of its ordering key.
func (e *Engine) behind(ctx context.Context, t *task.Task) Reason {
	rows, err := e.Key(ctx, t.OrderingKey, nil, 1)
	if err != nil {
		return Reason{Code: CodeBehind, Text: "another task of its ordering key is before it"}
	}
	if h := rows.Head; h != nil {
		return behindHead(h)
	}
	if len(rows.Behind) > 0 && rows.Behind[0].ID != t.ID && rows.Behind[0].State == task.Waiting {
		return behindWaiting(rows.Behind[0])
	}
	return Reason{Code: CodeBehind, Text: "its ordering key has no head at present, and gets one in a moment"}
}

// behindHead describes the state of the head of an ordering key.
func behindHead(h *task.Task) Reason {
	r := Reason{Code: CodeBehind, Head: h.ID, HeadState: h.State}
	r.Text = fmt.Sprintf("task %v of type %s has the same ordering key and is before it: ", h.ID, h.Type)
	since := h.UpdatedAt.Format(time.RFC3339)
	switch h.State {
	case task.Processing:
		on := ""
		if h.Node != "" {
			on = " on node " + h.Node
		}
		r.Text += fmt.Sprintf("it runs%s since %s", on, h.StartedAt.Format(time.RFC3339))
	case task.Waiting:
		r.Until = h.NextEventAt
		r.Text += "it waits for " + attemptText(h)
	case task.Error:
		r.Text += fmt.Sprintf("it is an error since %s and stops the key until a person decides about it, by taskengine task resume, fail or cancel %v", since, h.ID)
		if h.LastError != "" {
			r.Text += ": " + h.LastError
		}
	default:
		r.Text += fmt.Sprintf("it is %v since %s and has not started; taskengine task why %v says more", h.State, since, h.ID)
	}
	return r
}

// behindWaiting describes a task that waits for its time and has the first seat of its key.
func behindWaiting(first *task.Task) Reason {
	return Reason{
		Code: CodeBehind, Head: first.ID, HeadState: first.State, Until: first.NextEventAt,
		Text: fmt.Sprintf("task %v of type %s has the same ordering key and is before it: it waits for %s", first.ID, first.Type, attemptText(first)),
	}
}

// attemptText says why a task is Waiting.
func attemptText(t *task.Task) string {
	switch {
	case t.NextEventAt.IsZero():
		return "a time, and has none"
	case t.Attempt > 0:
		return fmt.Sprintf("attempt %d at %s, after: %s", t.Attempt+1, t.NextEventAt.Format(time.RFC3339), t.LastError)
	}
	return "its time, " + t.NextEventAt.Format(time.RFC3339)
}

// withProof adds missing proofs of the node to the reasons of a task: it starts nothing without them.
func (e *Engine) withProof(ctx context.Context, t *task.Task, rs []Reason) []Reason {
	holds, ok := e.HoldsPermits()
	for i, r := range rs {
		if ok && !holds && r.Cluster && (r.Code == CodeLimit || r.Code == CodeRate) {
			rs[i].Text += "; the node cannot prove to the coordinator that it is alive, so it has no permits"
		}
	}
	if t.State == task.Submitted && !e.IsMember() {
		text := "the node cannot prove that it is alive, so it starts nothing; others may start the task"
		rs = append([]Reason{{Code: CodeNoProof, Text: text + e.lockText(ctx)}}, rs...)
	}
	return rs
}

// lockText says which session of the database may keep the node from renewing its lease, as the end of a text.
func (e *Engine) lockText(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, heldPatience)
	defer cancel()
	blockers, err := e.Blockers(ctx)
	if err != nil || len(blockers) == 0 {
		return ""
	}
	return "; " + blockers[0].String() + " keeps rows or tables locked that it may need for that"
}

// How much Why says of children. Children in error come first, so it reads more than it says.
const (
	whySets          = 10  // sets of children
	whyChildrenRead  = 100 // children, of all sets together
	whyChildrenShown = 5   // children of one set
)

// withChildren has the reasons of a task that waits for children say for which, and which of them have not ended.
func (e *Engine) withChildren(ctx context.Context, t *task.Task, rs []Reason) []Reason {
	at := slices.IndexFunc(rs, func(r Reason) bool { return r.Code == CodeChildren })
	if at < 0 || t.Children == nil {
		return rs
	}
	ctx, cancel := context.WithTimeout(ctx, heldPatience) // a child may be in a database that does not answer
	defer cancel()
	var of []Reason
	left, others := whyChildrenRead, 0
	for i := range t.Children.Sets {
		s := &t.Children.Sets[i]
		switch {
		case s.Await == 0 || !s.IsOfChildren():
		case len(of) == whySets:
			others++
		default:
			r := rs[at]
			e.sayChildren(ctx, t, s, &left, &r)
			of = append(of, r)
		}
	}
	if len(of) == 0 {
		return rs
	}
	if others > 0 {
		of[len(of)-1].Text += fmt.Sprintf("; it waits for children of %d other names, too", others)
	}
	return slices.Replace(rs, at, at+1, of...)
}

// sayChildren completes the reason of a wait for the children s. It reads up to left children, and takes these from left.
func (e *Engine) sayChildren(ctx context.Context, t *task.Task, s *task.ChildSet, left *int, r *Reason) {
	r.Used, r.Max = int(s.Ended()), int(s.Await)
	r.Text = fmt.Sprintf("it waits for %d more of %d children %q", s.Await-min(s.Await, s.Ended()), s.Added, s.Name)
	if s.IsOpen() {
		r.Max = int(s.Added)
		r.Text = fmt.Sprintf("its children %q are not complete: %d were added, and more are to follow", s.Name, s.Added)
	}
	if s.OrFailed {
		r.Text += ", or for one that fails or is cancelled"
	}
	if !r.Until.IsZero() {
		r.Text += ", until " + r.Until.Format(time.RFC3339)
	}
	r.Text += fmt.Sprintf(": %d done, %d failed, %d cancelled", s.Done, s.Failed, s.Cancelled)
	var stuck, others []string // the texts for children in error, and for others
	var stuckIDs, otherIDs []task.ID
	unread := 0
	for index := range s.Added {
		if s.HasEnded(index) {
			continue
		}
		if *left == 0 || ctx.Err() != nil {
			unread++
			continue
		}
		*left--
		id := e.childOf(t.ID, s, index)
		child, err := e.getChild(ctx, t.ID, s, index)
		if err == nil {
			id = child.ID
		}
		text, isStuck := childText(child, err)
		if text = fmt.Sprintf("; child %d (%v) %s", index, id, text); isStuck {
			stuck, stuckIDs = append(stuck, text), append(stuckIDs, id)
		} else {
			others, otherIDs = append(others, text), append(otherIDs, id)
		}
	}
	said, ids := append(stuck, others...), append(stuckIDs, otherIDs...)
	more := unread + len(said) - min(len(said), whyChildrenShown)
	said, r.Holders = said[:min(len(said), whyChildrenShown)], ids[:min(len(ids), whyChildrenShown)]
	r.Text += strings.Join(said, "")
	if more > 0 {
		r.Text += fmt.Sprintf("; %d others have not ended", more)
	}
	if unread > 0 {
		r.Text += fmt.Sprintf(", of which %d were not looked at", unread)
	}
}

// childText words the state of a child whose end its parent has not learned of, and reports whether the child waits for a person.
// It does not say why: who may see the parent may not see tasks of the type of the child.
func childText(child *task.Task, err error) (text string, isStuck bool) {
	switch {
	case errors.Is(err, task.ErrNotFound):
		return "is not in the store: either it or the report of its end is on the way", false
	case err != nil:
		return "cannot be read: " + err.Error(), false
	case child.State == task.Error:
		return "is in error, and has not ended until a person resumes, fails or cancels it", true
	case !child.State.Live():
		return fmt.Sprintf("is %v, and the report of that is on the way", child.State), false
	}
	return "is " + child.State.String(), false
}

// withTasks has the reason of a task that runs after others say for which it waits.
func (e *Engine) withTasks(ctx context.Context, t *task.Task, rs []Reason) []Reason {
	at := slices.IndexFunc(rs, func(r Reason) bool { return r.Code == CodeAfter })
	set := t.Children.Set(task.AfterSet)
	if at < 0 || set == nil {
		return rs
	}
	ctx, cancel := context.WithTimeout(ctx, heldPatience) // a task may be in a database that does not answer
	defer cancel()
	r := &rs[at]
	r.Used, r.Max = int(set.Ended()), int(set.Added)
	left, which := set.Added-set.Ended(), "to be done"
	if !set.OrFailed {
		which = "to end"
	}
	r.Text = fmt.Sprintf("it waits for %d of %d tasks %s, after which it runs", left, set.Added, which)
	if !r.Until.IsZero() {
		r.Text += ", until " + r.Until.Format(time.RFC3339)
	}
	var stuck, others []string
	var stuckIDs, otherIDs []task.ID
	for i, id := range set.Tasks() {
		if set.HasEnded(uint32(i)) {
			continue
		}
		one, err := e.store.Get(ctx, id)
		text, isStuck := childText(one, err)
		if text = fmt.Sprintf("; task %v %s", id, text); isStuck {
			stuck, stuckIDs = append(stuck, text), append(stuckIDs, id)
		} else {
			others, otherIDs = append(others, text), append(otherIDs, id)
		}
	}
	said, ids := append(stuck, others...), append(stuckIDs, otherIDs...)
	more := len(said) - min(len(said), whyChildrenShown)
	said, r.Holders = said[:len(said)-more], ids[:len(ids)-more]
	if r.Text += strings.Join(said, ""); more > 0 {
		r.Text += fmt.Sprintf("; and for %d others", more)
	}
	return rs
}
