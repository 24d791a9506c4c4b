package tokens

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/taskengine/taskengine/internal/access"
)

// Record is a kept token, without its secret.
type Record struct {
	Name      string        `json:"name"`
	Hash      access.Hash   `json:"hash"`
	Roles     []access.Role `json:"roles"`
	Types     []string      `json:"types,omitempty"`
	Created   time.Time     `json:"created"`
	By        string        `json:"by"`                // who added it
	Expires   time.Time     `json:"expires,omitzero"`  // zero: never
	Earlier   []Earlier     `json:"earlier,omitempty"` // secrets from before rotations that are accepted for a while
	Rotated   time.Time     `json:"rotated,omitzero"`  // when it got Hash; zero: when it was added
	RotatedBy string        `json:"rotated_by,omitempty"`
	Revoked   time.Time     `json:"revoked,omitzero"` // zero: it is not
	RevokedBy string        `json:"revoked_by,omitempty"`
}

// Earlier is a secret from before a rotation.
type Earlier struct {
	Hash  access.Hash `json:"hash"`
	Until time.Time   `json:"until"`
}

// The states of records.
const (
	Valid   = "valid"
	Expired = "expired"
	Revoked = "revoked"
)

// State returns the state of the token at a time.
func (r *Record) State(now time.Time) string {
	switch {
	case !r.Revoked.IsZero():
		return Revoked
	case r.token().IsOver(now):
		return Expired
	}
	return Valid
}

// EarlierUntil returns until when a secret from before a rotation is accepted; zero if none is at that time.
func (r *Record) EarlierUntil(now time.Time) (until time.Time) {
	for _, e := range r.Earlier {
		if e.Until.After(now) && e.Until.After(until) {
			until = e.Until
		}
	}
	return until
}

// token returns the record as a token, with its rights.
func (r *Record) token() *access.Token {
	return &access.Token{Name: r.Name, Hash: r.Hash, Roles: r.Roles, Types: r.Types, Created: r.Created, Expires: r.Expires}
}

// accepted returns a token for each secret that is accepted until its time.
func (r *Record) accepted() []access.Token {
	if !r.Revoked.IsZero() {
		return nil
	}
	all := []access.Token{*r.token()}
	for _, e := range r.Earlier {
		one := *r.token()
		one.Hash = e.Hash
		if one.Expires.IsZero() || e.Until.Before(one.Expires) {
			one.Expires = e.Until
		}
		all = append(all, one)
	}
	return all
}

// document is the value of the setting, as JSON.
type document struct {
	Tokens []Record `json:"tokens"` // the oldest first
}

// decode reads the value of the setting. A field that this version does not know is an error: it may be a restriction. No
// setting has no tokens.
func decode(value []byte) ([]Record, error) {
	if value == nil {
		return nil, nil
	}
	var doc document
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	err := d.Decode(&doc)
	if _, end := d.Token(); err == nil && !errors.Is(end, io.EOF) {
		err = errors.New("there is more after its end")
	}
	if err != nil {
		return nil, fmt.Errorf("the tokens of the cluster are damaged, or of a newer version: %w", err)
	}
	for i := range doc.Tokens {
		if err := doc.Tokens[i].token().Check(); err != nil {
			return nil, fmt.Errorf("of the tokens of the cluster, number %d %w", i+1, err)
		}
	}
	return doc.Tokens, nil
}
