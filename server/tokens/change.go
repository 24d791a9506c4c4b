package tokens

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/internal/access"
)

const (
	// maxSize is how many bytes the kept tokens may have: some thousands of tokens, and less than any coordinator takes.
	maxSize = 512 << 10

	// maxTime is the longest time until a token expires.
	maxTime = 100 * 365 * 24 * time.Hour

	// maxGrace is the longest time for which a secret is accepted after a rotation.
	maxGrace = 90 * 24 * time.Hour

	// maxEarlier is how many secrets from before rotations may be accepted at a time.
	maxEarlier = 10

	// keepFor is for how long a record is kept after its token was revoked, or has expired.
	keepFor = 30 * 24 * time.Hour
)

// Request is a token to add.
type Request struct {
	Name    string
	Roles   []access.Role
	Types   []string
	Expires time.Duration // from now; 0: never
}

// List returns the kept tokens, by name.
func (k *Kept) List(ctx context.Context) ([]Record, error) {
	records, err := k.value.Load(ctx)
	slices.SortStableFunc(records, func(a, b Record) int { return cmp.Compare(a.Name, b.Name) })
	return records, err
}

// Add keeps a new token, and returns its secret. maker is the token of who adds it, nil if that needs none.
func (k *Kept) Add(ctx context.Context, q Request, by string, maker *access.Token) (added Record, secret string, err error) {
	if q.Expires < 0 || q.Expires > maxTime {
		return added, "", fmt.Errorf("%w: it expires in %v; want at most %v", ErrInvalid, q.Expires, maxTime)
	}
	secret = access.NewText()
	added = Record{Name: q.Name, Hash: access.HashOf(secret), Roles: q.Roles, Types: q.Types, By: by}
	if err := added.token().Check(); err != nil {
		return added, "", fmt.Errorf("%w: it %w", ErrInvalid, err)
	}
	err = k.change(ctx, func(all []Record, now time.Time) ([]Record, error) {
		if added.Created = now; q.Expires > 0 {
			added.Expires = now.Add(q.Expires)
		}
		if err := mayGive(maker, &added); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(k.File().List(), func(t access.Token) bool { return t.Name == q.Name }) {
			return nil, fmt.Errorf("%w: the file of api.tokens of the node has a token %s; choose another name", ErrTaken, q.Name)
		}
		if i := indexOf(all, q.Name); i >= 0 {
			if all[i].State(now) == Valid {
				return nil, fmt.Errorf("%w: there is a valid token %s; choose another name, or revoke or rotate that one", ErrTaken, q.Name)
			}
			all = slices.Delete(all, i, i+1)
		}
		return append(all, added), nil
	})
	return added, secret, err
}

// mayGive returns an error if maker is valid for less time than a token that it would get the secret of. Who makes tokens
// has the role admin for all types, so maker has the rights.
func mayGive(maker *access.Token, r *Record) error {
	if maker == nil || maker.Expires.IsZero() || !r.Expires.IsZero() && !r.Expires.After(maker.Expires) {
		return nil
	}
	return fmt.Errorf("%w: %s expires at %s, and makes no token that is valid for longer", ErrMore, maker.Label(), maker.Expires.Format(time.RFC3339))
}

// Revoke revokes a kept token, and returns it. The last valid one that may manage tokens is revoked with force alone. One that
// was revoked stays as it is.
func (k *Kept) Revoke(ctx context.Context, name, by string, force bool) (revoked Record, err error) {
	err = k.change(ctx, func(all []Record, now time.Time) ([]Record, error) {
		i := indexOf(all, name)
		if i < 0 {
			return nil, k.unknown(name)
		}
		one := &all[i]
		manages := one.State(now) == Valid && one.token().ManagesTokens()
		if one.Revoked.IsZero() {
			one.Revoked, one.RevokedBy, one.Earlier = now, by, nil
		}
		if manages && !force && !k.anyManages(all, now) {
			return nil, fmt.Errorf("%w: %s is the last valid token with the role admin for all types; add another one first, or use force", ErrNotAllowed, name)
		}
		revoked = *one
		return all, nil
	})
	return revoked, err
}

// anyManages reports whether a valid token may manage tokens.
func (k *Kept) anyManages(all []Record, now time.Time) bool {
	return slices.ContainsFunc(all, func(r Record) bool { return r.State(now) == Valid && r.token().ManagesTokens() }) ||
		slices.ContainsFunc(k.File().List(), func(t access.Token) bool { return !t.IsOver(now) && t.ManagesTokens() })
}

// Rotate gives a kept token another secret, and returns that. The one from before is accepted for the time of grace. maker is
// the token of who rotates it, nil if that needs none.
func (k *Kept) Rotate(ctx context.Context, name, by string, grace time.Duration, maker *access.Token) (rotated Record, secret string, err error) {
	if grace < 0 || grace > maxGrace {
		return rotated, "", fmt.Errorf("%w: the grace is %v; want at most %v", ErrInvalid, grace, maxGrace)
	}
	secret = access.NewText()
	err = k.change(ctx, func(all []Record, now time.Time) ([]Record, error) {
		i := indexOf(all, name)
		if i < 0 {
			return nil, k.unknown(name)
		}
		one := &all[i]
		if state := one.State(now); state != Valid {
			return nil, fmt.Errorf("%w: %s is %s; add it again", ErrNotAllowed, name, state)
		}
		if err := mayGive(maker, one); err != nil {
			return nil, err
		}
		if grace > 0 {
			one.Earlier = append(one.Earlier, Earlier{one.Hash, now.Add(grace)})
		}
		if len(one.Earlier) > maxEarlier {
			return nil, fmt.Errorf("%w: %d earlier secrets of %s are accepted already, until %s", ErrNotAllowed, maxEarlier, name, one.EarlierUntil(now).Format(time.RFC3339))
		}
		one.Hash, one.Rotated, one.RotatedBy = access.HashOf(secret), now, by
		rotated = *one
		return all, nil
	})
	return rotated, secret, err
}

// unknown returns the error of a name that no kept token has.
func (k *Kept) unknown(name string) error {
	if slices.ContainsFunc(k.File().List(), func(t access.Token) bool { return t.Name == name }) {
		return fmt.Errorf("%w: %s is in the file of api.tokens, which taskengine token revoke --file changes", ErrUnknown, name)
	}
	return fmt.Errorf("%w: %.100q; taskengine token list shows which there are", ErrUnknown, name)
}

// change replaces the kept tokens by the result of fn, which may be called several times. This node knows the change when it
// returns. After [ErrUnavailable] the change may have been made.
func (k *Kept) change(ctx context.Context, fn func(all []Record, now time.Time) ([]Record, error)) error {
	return k.value.Change(ctx, func(all []Record) ([]byte, error) {
		now := k.Now().UTC().Truncate(time.Millisecond)
		all, err := fn(current(all, now), now)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(document{all})
		if err != nil {
			return nil, err
		}
		if len(value) > maxSize {
			return nil, fmt.Errorf("%w: the cluster keeps too many tokens: %d bytes of %d allowed; revoke some", ErrNotAllowed, len(value), maxSize)
		}
		return value, nil
	})
}

// current returns the records without tokens that ended long ago and without expired secrets.
func current(all []Record, now time.Time) []Record {
	all = slices.DeleteFunc(all, func(r Record) bool {
		ended := r.Revoked
		if ended.IsZero() {
			ended = r.Expires
		}
		return !ended.IsZero() && now.Sub(ended) > keepFor
	})
	for i := range all {
		all[i].Earlier = slices.DeleteFunc(all[i].Earlier, func(e Earlier) bool { return !e.Until.After(now) })
	}
	return all
}

func indexOf(all []Record, name string) int {
	return slices.IndexFunc(all, func(r Record) bool { return r.Name == name })
}
