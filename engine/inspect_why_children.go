package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/task"
)

// How much Why says of children. Those that are in error are said first, so it reads more than it says.
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
		case s.Await == 0:
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
	if s.OrFailed {
		r.Text += ", or for one that fails or is cancelled"
	}
	if !r.Until.IsZero() {
		r.Text += ", until " + r.Until.Format(time.RFC3339)
	}
	r.Text += fmt.Sprintf(": %d done, %d failed, %d cancelled", s.Done, s.Failed, s.Cancelled)
	var stuck, others []string // what is said of children in error, and of others
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
