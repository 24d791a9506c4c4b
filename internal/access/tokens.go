package access

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Errors of [Tokens.Check].
var (
	ErrUnknown = errors.New("the node does not know the token: it was revoked, or is one of another cluster; taskengine token list shows which there are")
	ErrExpired = errors.New("has expired; taskengine token add makes another one")
	ErrDoubt   = errors.New("the node cannot say which tokens are valid")
)

// Tokens are the tokens of one or two sources. They do not change.
type Tokens struct {
	list   []Token
	byHash map[Hash]*Token
	file   map[Hash]*Token  // tokens of the file, which are valid without confirmation; nil: all are
	doubt  func() error     // nil: never
	now    func() time.Time // by which tokens expire; nil: the wall clock
}

// NewTokens returns a set of tokens, or says which of them cannot be.
func NewTokens(list []Token) (*Tokens, error) {
	t := &Tokens{list: slices.Clone(list), byHash: make(map[Hash]*Token, len(list))}
	names := make(map[string]bool, len(list))
	for i := range t.list {
		one := &t.list[i]
		if err := one.Check(); err != nil {
			return nil, fmt.Errorf("token %d of %d %w", i+1, len(list), err)
		}
		if names[one.Name] {
			return nil, fmt.Errorf("two tokens have the name %s", one.Name)
		}
		if t.byHash[one.Hash] != nil {
			return nil, fmt.Errorf("the tokens %s and %s have the same hash", t.byHash[one.Hash].Name, one.Name)
		}
		names[one.Name], t.byHash[one.Hash] = true, one
	}
	return t, nil
}

// Join returns the tokens of a file and others, of which several may have one name: a token may have two secrets. A token
// of the file hides another one of the same hash. The others are valid while doubt returns nil. They expire by now.
func Join(file *Tokens, others []Token, doubt func() error, now func() time.Time) *Tokens {
	t := &Tokens{list: slices.Concat(file.list, others), byHash: make(map[Hash]*Token, len(file.list)+len(others)), file: file.byHash, doubt: doubt, now: now}
	for i := range t.list {
		if one := &t.list[i]; t.byHash[one.Hash] == nil {
			t.byHash[one.Hash] = one
		}
	}
	return t
}

// Find returns the token with a hash, also if it is not valid any more; nil if there is none.
func (t *Tokens) Find(h Hash) *Token { return t.byHash[h] }

// Check returns the token with a hash if it is valid now. The error wraps [ErrUnknown], [ErrExpired] or [ErrDoubt].
func (t *Tokens) Check(h Hash) (*Token, error) {
	one := t.byHash[h]
	if t.doubt != nil && t.file[h] == nil {
		if err := t.doubt(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDoubt, err)
		}
	}
	switch {
	case one == nil:
		return nil, ErrUnknown
	case !one.Expires.IsZero() && one.IsOver(t.clock()):
		return nil, fmt.Errorf("the token %s %w", one.Name, ErrExpired)
	}
	return one, nil
}

func (t *Tokens) clock() time.Time {
	if t.now == nil {
		return time.Now()
	}
	return t.now()
}

// List returns all tokens: of a file, the oldest first. The caller may change the slice, but not the tokens in it.
func (t *Tokens) List() []Token { return slices.Clone(t.list) }
