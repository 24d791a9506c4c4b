package engine

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/taskengine/taskengine/internal/place"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// ErrExists is wrapped by the errors of requests that were rejected because another task has their key, see
// [policy.RejectNew].
var ErrExists = errors.New("the task exists")

// SubmitOutcome is the effect of a request.
type SubmitOutcome uint8

// The values of SubmitOutcome. OutcomeReplaced, OutcomeAlreadyDone and OutcomeRejected are of types with a [policy.Unique]
// that is not the default.
const (
	OutcomeExisting    SubmitOutcome = iota // nothing: there is a task with its id or key
	OutcomeCreated                          // it has added the task
	OutcomeReplaced                         // its content is that of the task that has the key
	OutcomeAlreadyDone                      // nothing: the task that has the key is done
	OutcomeRejected                         // nothing: there is a task with its key, and the type rejects such requests
	OutcomeLate                             // nothing: its time lies too far in the past, see [policy.Type.MaxLateness]
)

var submitOutcomes = [...]string{"existing", "created", "replaced", "already_done", "rejected", "late"}

// String returns the name of the outcome.
func (o SubmitOutcome) String() string {
	if int(o) >= len(submitOutcomes) {
		return fmt.Sprintf("outcome(%d)", uint8(o))
	}
	return submitOutcomes[o]
}

// keyOf returns the key of a request that has none, from the places that unique.by of its type names.
func (info *typeInfo) keyOf(r *Request) (string, error) {
	values := make([]string, len(info.by))
	for i, path := range info.by {
		at := strings.Join(path, ".")
		var err error
		switch path[0] {
		case "ordering_key":
			values[i] = r.OrderingKey
		case "headers":
			values[i] = r.Headers[strings.Join(path[1:], ".")]
		default:
			values[i], err = place.Text(r.Payload, path[1:])
		}
		switch {
		case err != nil:
			return "", fmt.Errorf("unique.by of type %s needs %s: %w", r.Type, at, err)
		case values[i] == "":
			return "", fmt.Errorf("unique.by of type %s needs %s, and the request does not have it: add it, or a key", r.Type, at)
		}
	}
	key := task.GroupOf(values...)
	switch {
	case len(key) > MaxKey:
		return "", fmt.Errorf("the key that unique.by makes has %d bytes, of %d allowed", len(key), MaxKey)
	case !utf8.ValidString(key):
		return "", errors.New("the key that unique.by makes is not UTF-8 text")
	}
	return key, nil
}

// terms returns the terms on which requests add their rows; nil if none has any. Requests of types that say nothing of taken
// keys are resolved only if they are late.
func (c *catalog) terms(rows []*task.Task) (all []storage.Terms) {
	return c.termsOf(rows, c.rules().mayBeLate)
}

// timelessTerms are the terms of requests of which it was seen before whether they are late.
func (c *catalog) timelessTerms(rows []*task.Task) []storage.Terms { return c.termsOf(rows, false) }

func noTerms([]*task.Task) []storage.Terms { return nil }

// termsOf is terms. If mayBeLate is not set, no request is late.
func (c *catalog) termsOf(rows []*task.Task, mayBeLate bool) (all []storage.Terms) {
	if !c.rules().isUnique && !mayBeLate {
		return nil
	}
	var now time.Time
	for i, t := range rows {
		info := c.infoOf(t.Type)
		rules, isLate := info.rules, false
		if !mayBeLate {
			rules = info.timeless
		} else if info.rules.MaxLateness > 0 && !t.ReadyAt.IsZero() {
			if now.IsZero() {
				now = c.now()
			}
			isLate = info.rules.IsLate(now, t.ReadyAt)
		}
		if !isLate && (!info.isUnique || t.Key == "") {
			continue
		}
		if all == nil {
			all = make([]storage.Terms, len(rows))
		}
		all[i] = storage.Terms{Rules: rules, NoPlace: isLate} // a late request adds nothing
	}
	return all
}

// answer returns the receipts of requests, with their IDs, and the error of refused ones.
func (c *catalog) answer(rows []*task.Task, receipts []Receipt, inserted []storage.Inserted) ([]Receipt, error) {
	for i := range inserted {
		c.complete(rows[i], &receipts[i], &inserted[i])
	}
	return receipts, c.refused(receipts)
}

// complete sets the outcome of a request. Its row belongs to others if it was added.
func (c *catalog) complete(row *task.Task, r *Receipt, in *storage.Inserted) {
	if r.Created = in.Created(); r.Created {
		r.Outcome = OutcomeCreated
		return
	}
	r.ID = in.Existing
	switch in.What {
	case task.AlreadyDone:
		if c.infoOf(row.Type).isUnique {
			r.Outcome = OutcomeAlreadyDone
		}
	case task.Replaces:
		r.Outcome = OutcomeReplaced
	case task.IsLate:
		c.refuseLate(row, r)
	case task.Rejects:
		r.Outcome, r.Err = OutcomeRejected, fmt.Errorf("%w: task %v of type %s has the key %q, and unique.on_conflict of the type is reject", ErrExists, r.ID, row.Type, row.Key)
	}
}

// refuseOne has a request be refused because its backlog is full, if others of its call were done. It returns other errors,
// and that of a call that has done nothing.
func refuseOne(receipts []Receipt, r *Receipt, err error) error {
	if !errors.Is(err, ErrBacklog) || len(receipts) == 1 {
		return err
	}
	r.Outcome, r.Err = OutcomeRejected, err
	return nil
}

// refused returns the error of a call with requests that were refused while the others were done, or nil.
func (c *catalog) refused(receipts []Receipt) error {
	n, first, kinds := 0, 0, make([]error, 0, 2) // the first error of each kind
	for i := range receipts {
		err := receipts[i].Err
		if err == nil {
			continue
		}
		if n++; n == 1 {
			first = i
		}
		if len(kinds) == 0 || len(kinds) == 1 && errors.Is(err, ErrLate) != errors.Is(kinds[0], ErrLate) {
			kinds = append(kinds, err)
		}
	}
	switch {
	case n == 0:
		return nil
	case len(receipts) == 1:
		return kinds[0]
	case len(kinds) == 1:
		return fmt.Errorf("%d of %d requests were refused, and the others are done; the first is request %d: %w", n, len(receipts), first+1, kinds[0])
	}
	return fmt.Errorf("%d of %d requests were refused, and the others are done; the first is request %d: %w; and another: %w", n, len(receipts), first+1, kinds[0], kinds[1])
}
