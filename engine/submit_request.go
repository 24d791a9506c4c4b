package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/taskengine/taskengine/codec"
	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/internal/place"
	"github.com/taskengine/taskengine/task"
)

// ErrInvalid is wrapped by the errors of requests that the engine cannot accept.
var ErrInvalid = errors.New("invalid request")

// InvalidRequestError is the [ErrInvalid] of one request of a call. Nothing of the call was done.
type InvalidRequestError struct {
	Index int   // of the request
	Of    int   // the number of requests of the call
	Err   error // the reason
}

// Error implements error.
func (e *InvalidRequestError) Error() string {
	if e.Of == 1 {
		return fmt.Sprintf("%v: %v", ErrInvalid, e.Err)
	}
	return fmt.Sprintf("%v %d of %d: %v", ErrInvalid, e.Index+1, e.Of, e.Err)
}

// Unwrap returns [ErrInvalid] and the reason.
func (e *InvalidRequestError) Unwrap() []error { return []error{ErrInvalid, e.Err} }

// Limits of a request, in bytes.
const (
	MaxType    = 200
	MaxKey     = 500
	MaxGroup   = 1000
	MaxHeaders = 16 << 10
)

// Request describes a task to add. Only Type is required.
type Request = task.Request

// rows returns the rows of reqs, or an error if a request is invalid. Generated ids belong to
// shards; nil stands for all shards.
func (c *catalog) rows(reqs []Request, shards *task.Shards) ([]*task.Task, error) {
	if err := checkAllReserved(reqs); err != nil {
		return nil, err
	}
	return c.ownRows(reqs, shards)
}

// unsettledRows is rows for rows that have no generated ids and no shards yet, see settle.
func (c *catalog) unsettledRows(reqs []Request) ([]*task.Task, error) {
	if err := checkAllReserved(reqs); err != nil {
		return nil, err
	}
	rows := make([]*task.Task, len(reqs))
	for i := range reqs {
		rows[i] = new(task.Task)
		if err := c.fill(rows[i], &reqs[i], nil); err != nil {
			return nil, &InvalidRequestError{Index: i, Of: len(reqs), Err: err}
		}
	}
	return rows, nil
}

func checkAllReserved(reqs []Request) error {
	for i := range reqs {
		if err := checkReserved(&reqs[i]); err != nil {
			return &InvalidRequestError{Index: i, Of: len(reqs), Err: err}
		}
	}
	return nil
}

// checkReserved returns an error if only a part of the engine may make a request.
func checkReserved(r *Request) error {
	switch {
	case task.IsReservedType(r.Type):
		return fmt.Errorf("type %.80q is reserved: types that begin with %s belong to the engine; schedules are added by taskengine schedule apply, or by the schedules of a configuration", r.Type, task.ReservedTypes)
	case task.IsReservedID(r.ID):
		return fmt.Errorf("id %v is reserved: ids that begin with 00000000-0000 belong to the engine; leave it out for a generated one", r.ID)
	}
	return nil
}

// ownRows is rows for parts of the engine, which may use reserved types and ids.
func (c *catalog) ownRows(reqs []Request, shards *task.Shards) ([]*task.Task, error) {
	if len(reqs) == 1 { // the usual case, in one allocation
		only := new(struct {
			row  task.Task
			rows [1]*task.Task
		})
		only.rows[0] = &only.row
		if err := c.fill(&only.row, &reqs[0], shards); err != nil {
			return nil, &InvalidRequestError{Of: 1, Err: err}
		}
		c.settle(&only.row, shards)
		return only.rows[:], nil
	}
	rows := make([]*task.Task, len(reqs))
	for i := range reqs {
		rows[i] = new(task.Task) // one by one: tasks end, and are freed, at different times
		if err := c.fill(rows[i], &reqs[i], shards); err != nil {
			return nil, &InvalidRequestError{Index: i, Of: len(reqs), Err: err}
		}
		c.settle(rows[i], shards)
	}
	return rows, nil
}

// fill sets t to the row of r, which is to be settled, or returns an error if r is invalid. A generated id is to belong to shards.
func (c *catalog) fill(t *task.Task, r *Request, shards *task.Shards) error {
	info := c.infoOf(r.Type)
	switch {
	case r.Children != nil:
		return errChildrenHere
	case len(r.After) > 0:
		return errAfterHere
	case r.AfterAny:
		return r.CheckAfter()
	case r.MayFollow != nil:
		return errors.New("it has MayFollow, which only tasks have that are added with the end of an attempt and run after others")
	}
	if err := check(r, info.maxPayload); err != nil {
		return err
	}
	if len(info.by) > 0 && r.Key == "" {
		key, err := info.keyOf(r)
		if err != nil {
			return err
		}
		named := *r // a copy: r belongs to the caller
		named.Key, r = key, &named
	}
	if err := c.checkPlace(r, shards); err != nil {
		return err
	}
	group, err := groupOf(info.keys, r)
	if err != nil {
		return err
	}
	t.ID, t.Type, t.Key, t.OrderingKey = r.ID, r.Type, r.Key, r.OrderingKey
	t.Priority, t.Group, t.Inherits = info.priority, group, info.inherits
	t.ReadyAt, t.ExpiresAt = r.At, r.ExpiresAt
	t.Headers = maps.Clone(r.Headers)
	if of := c.search[t.Type]; len(of) > 0 {
		t.Search = filter.SearchValues(t.Type, of, r.Headers, r.Payload)
	}
	if c.isCut() {
		t.Search = []task.SearchValue{task.Unread}
	}
	if t.Payload, err = c.contents.encode(t.Type, codec.Payload, bytes.Clone(r.Payload)); err != nil { // the caller reuses its buffer
		return err
	}
	if r.Priority != nil {
		t.Priority = *r.Priority
	}
	return nil
}

// settle gives a row its shard and, unless it has one, an id, which is generated in shards; nil stands for all shards.
func (c *catalog) settle(t *task.Task, shards *task.Shards) {
	info := c.infoOf(t.Type)
	t.Shard = c.shardOf(t, shards)
	if info.shardedBy != "" && t.OrderingKey == "" {
		t.Shard = task.ShardOf(info.shardedBy + "\x00" + task.GroupValues(t.Group, len(info.keys))[info.shardKey])
	}
}

func check(r *Request, maxPayload int) error {
	headers, text := 0, utf8.ValidString(r.Key) && utf8.ValidString(r.OrderingKey)
	for k, v := range r.Headers {
		headers += len(k) + len(v)
		text = text && utf8.ValidString(k) && utf8.ValidString(v)
	}
	switch {
	case r.Type == "":
		return errors.New("type is missing")
	case len(r.Type) > MaxType:
		return fmt.Errorf("type has %d bytes, of %d allowed", len(r.Type), MaxType)
	case !printable(r.Type):
		return errors.New("type has characters that cannot be printed")
	case len(r.Key) > MaxKey:
		return fmt.Errorf("key has %d bytes, of %d allowed", len(r.Key), MaxKey)
	case len(r.OrderingKey) > MaxKey:
		return fmt.Errorf("ordering key has %d bytes, of %d allowed", len(r.OrderingKey), MaxKey)
	case !text:
		return errors.New("keys and headers must be UTF-8 text")
	case len(r.Payload) > maxPayload:
		return tooLarge{fmt.Errorf("payload has %d bytes, of %d allowed by max_payload of type %s", len(r.Payload), maxPayload, r.Type)}
	case headers > MaxHeaders:
		return tooLarge{fmt.Errorf("headers have %d bytes, of %d allowed", headers, MaxHeaders)}
	case r.Priority != nil && *r.Priority > task.LowestPriority:
		return fmt.Errorf("priority is %d, of 0 (sooner) to 9 (later)", *r.Priority)
	case outOfRange(r.At) || outOfRange(r.ExpiresAt):
		return errors.New("times must lie between the years 1970 and 9999")
	}
	return nil
}

// tooLarge is the error of a request with too many bytes.
type tooLarge struct{ error }

func outOfRange(t time.Time) bool { return !t.IsZero() && (t.Unix() < 0 || t.Year() > 9999) }

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// keyed is the source of one value of a type's group.
type keyed struct {
	limit string    // the limit that uses the value; "" if none does any more
	path  []string  // "payload", then the names of JSON members; "headers", then a name; "key"; "ordering_key"; "func", then a name
	value valueFunc // with "func": computes the value; nil if this program does not have it
}

// groupOf returns the group of a request: its values for the keyed limits of its type. A
// missing value is the empty value, which limits treat like any other.
func groupOf(keys []keyed, r *Request) (string, error) {
	if len(keys) == 0 {
		return "", nil
	}
	values := make([]string, len(keys))
	for i, k := range keys {
		switch k.path[0] {
		case "key":
			values[i] = r.Key
		case "ordering_key":
			values[i] = r.OrderingKey
		case computed:
			v, err := k.compute(r)
			if err != nil {
				return "", err
			}
			values[i] = v
		case "headers":
			values[i] = r.Headers[strings.Join(k.path[1:], ".")]
		default:
			v, err := place.Text(r.Payload, k.path[1:])
			if err != nil && k.limit != "" {
				return "", fmt.Errorf("limit %s needs %s of the payload: %w", k.limit, strings.Join(k.path[1:], "."), err)
			}
			values[i] = v
		}
	}
	group := task.GroupOf(values...)
	if len(group) > MaxGroup {
		return "", fmt.Errorf("the values that its limits look at have %d bytes, of %d allowed", len(group), MaxGroup)
	}
	return group, nil
}

// ErrLate is wrapped by the errors of requests with a time further in the past than [policy.Type.MaxLateness].
var ErrLate = errors.New("the request is too late")

// refuseLate sets the receipt of a late request.
func (c *catalog) refuseLate(t *task.Task, r *Receipt) {
	*r = Receipt{Outcome: OutcomeLate, Err: fmt.Errorf("%w: its time, %s, lies more than %v in the past, which is max_lateness of type %s; submit it with a later time, or without one",
		ErrLate, t.ReadyAt.UTC().Format(time.RFC3339Nano), c.infoOf(t.Type).rules.MaxLateness, t.Type)}
}

// decorated returns requests as decorated by Config.Decorate.
func (e *Engine) decorated(ctx context.Context, reqs []Request) ([]Request, error) {
	if e.config.Decorate == nil {
		return reqs, nil
	}
	own := slices.Clone(reqs)
	for i := range own {
		r := &own[i]
		if r.Headers = maps.Clone(r.Headers); r.Headers == nil {
			r.Headers = make(map[string]string)
		}
		if err := decorate(ctx, e.config.Decorate, r); err != nil {
			return nil, fmt.Errorf("%w %d of %d: %w", ErrInvalid, i+1, len(own), err)
		}
		if len(r.Headers) == 0 {
			r.Headers = nil
		}
	}
	return own, nil
}

// decorate turns a panic into an error.
func decorate(ctx context.Context, fn func(context.Context, *Request) error, r *Request) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("Config.Decorate panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return fn(ctx, r)
}

// computed begins the Per of a limit with values that a function of the program computes.
const computed = "func"

// valueFunc is one of [Config.Values].
type valueFunc = func(*Request) string

// checkValues returns an error if a limit needs a function that the program does not have.
func checkValues(c *Config) error {
	for _, name := range slices.Sorted(maps.Keys(c.Policies.Limits)) {
		of, ok := strings.CutPrefix(c.Policies.Limits[name].Per, computed+".")
		if ok && c.Values[of] == nil {
			return fmt.Errorf("engine: limit %q is per func.%s: set Config.Values[%q], which computes that value", name, of, of)
		}
	}
	return nil
}

// compute sets the functions of the keys. used is how many of the values the limits of this program
// need. Behind those, a value whose function only other programs have is left out with all that follow:
// the group of a task is too short then, and a node of such a program completes it.
func compute(keys []keyed, used int, values map[string]valueFunc) []keyed {
	for i := range keys {
		k := &keys[i]
		if k.path[0] != computed {
			continue
		}
		if k.value = values[strings.Join(k.path[1:], ".")]; k.value == nil && i >= used {
			return keys[:i]
		}
	}
	return keys
}

// compute returns the value of a request. A value that no limit of this program uses, and that it
// cannot compute, is empty.
func (k *keyed) compute(r *Request) (value string, err error) {
	if k.value == nil {
		return "", nil
	}
	defer func() {
		if p := recover(); p != nil {
			value, err = "", fmt.Errorf("the function of the value %s panicked: %v", strings.Join(k.path, "."), p)
		}
	}()
	given := *r // a copy: the function may keep it, and r stays on the stack of the caller
	if value = k.value(&given); !utf8.ValidString(value) {
		return "", fmt.Errorf("the function of the value %s returned text that is not UTF-8", strings.Join(k.path, "."))
	}
	return value, nil
}
