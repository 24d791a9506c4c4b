package access

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// PersonPrefix begins the names of persons. No token has a colon in its name, so nobody who logs in has the name of a token.
const PersonPrefix = "oidc:"

// longestPerson is the most bytes of the name of a person.
const longestPerson = 150

// Named returns a person without rights: a token without a text, by which an identity provider has said who somebody is. The error
// completes a sentence about the name.
func Named(name string) (*Token, error) {
	isOdd := func(r rune) bool {
		return !unicode.IsGraphic(r) || unicode.IsSpace(r) || strings.ContainsRune(`()"`, r) || r == utf8.RuneError
	}
	if name == "" || len(name) > longestPerson || strings.ContainsFunc(name, isOdd) {
		return nil, fmt.Errorf("is %.200q; audit lines take names of 1 to %d bytes without spaces, quotes and parentheses", name, longestPerson)
	}
	return &Token{Name: PersonPrefix + name}, nil
}

// PersonName returns the name of the person that the token stands for; "" if it stands for a program, or for the holder of its text.
func (t *Token) PersonName() string {
	name, _ := strings.CutPrefix(t.Name, PersonPrefix)
	if name == t.Name {
		return ""
	}
	return name
}

// Label names the token, or the person that it stands for, in a sentence.
func (t *Token) Label() string {
	if name := t.PersonName(); name != "" {
		return "the person " + name
	}
	return "the token " + t.Name
}

// personKey is the key of a person in the context of a request.
type personKey struct{}

// WithPerson returns the context of a request that a person makes in this process.
func WithPerson(ctx context.Context, person *Token) context.Context {
	return context.WithValue(ctx, personKey{}, person)
}

// PersonOf returns the person that makes a request; nil if a token says who makes it.
func PersonOf(ctx context.Context) *Token {
	person, _ := ctx.Value(personKey{}).(*Token)
	return person
}
