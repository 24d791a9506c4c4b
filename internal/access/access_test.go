package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/logtest"
)

func TestARoleIncludesOthers(t *testing.T) {
	includes := map[Role][]Role{
		View: {View}, Submit: {View, Submit}, Work: {Work}, Manage: {View, Manage}, Operate: {View, Submit, Manage, Operate}, Reveal: {Reveal}, Admin: Roles(),
	}
	for _, has := range Roles() {
		for _, needs := range Roles() {
			want := false
			for _, r := range includes[has] {
				want = want || r == needs
			}
			if got := (&Token{Roles: []Role{has}}).May(needs); got != want {
				t.Errorf("%s has the rights of %s: %t, want %t", has, needs, got, want)
			}
		}
	}
	if both := (&Token{Roles: []Role{Submit, Work}}); !both.May(Work) || !both.May(Submit) || both.May(Operate) {
		t.Error("two roles do not have the rights of each")
	}
}

func TestATokenIsForTypesByNameOrPrefix(t *testing.T) {
	for types, want := range map[string]string{"": "mail mail-eu pay", "mail": "mail", "mail-*": "mail-eu", "mail*,pay": "mail mail-eu pay", "*": "mail mail-eu pay"} {
		token := &Token{Types: strings.FieldsFunc(types, func(r rune) bool { return r == ',' })}
		var got []string
		for _, typ := range []string{"mail", "mail-eu", "pay"} {
			if token.IsFor(typ) {
				got = append(got, typ)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q is for %q, want %q", types, got, want)
		}
	}
}

func TestTokensThatCannotBeAreRefused(t *testing.T) {
	one := Token{Name: "a", Roles: []Role{Submit}}
	for want, list := range map[string][]Token{
		"has the name":                       {{Name: "a b", Roles: one.Roles}},
		"neither local nor unknown":          {{Name: Local, Roles: one.Roles}},
		`has the name "unknown"`:             {{Name: Unknown, Roles: one.Roles}},
		"has no role; give one of view":      {{Name: "a"}},
		`has the role "boss"`:                {{Name: "a", Roles: []Role{"boss"}}},
		"one * at the end":                   {{Name: "a", Roles: one.Roles, Types: []string{"*-mail"}}},
		`is for the type ""`:                 {{Name: "a", Roles: one.Roles, Types: []string{""}}},
		"two tokens have the name a":         {one, {Name: "a", Roles: one.Roles, Hash: Hash{1}}},
		"the tokens a and b have the same h": {one, {Name: "b", Roles: one.Roles}},
	} {
		if _, err := NewTokens(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// add adds a token to a file, and returns its text.
func add(t testing.TB, path, name string) string {
	t.Helper()
	text := NewText()
	err := Change(path, func(list []Token) ([]Token, error) {
		return append(list, Token{Name: name, Hash: HashOf(text), Roles: []Role{Submit}, Types: []string{"mail-*"}, Created: time.Unix(1, 0).UTC()}), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestATokenIsFoundByItsTextAndTheFileDoesNotHaveTheText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	text := add(t, path, "shop")
	tokens, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	got := tokens.Find(HashOf(text))
	if got == nil || got.Name != "shop" || !got.May(Submit) || !got.IsFor("mail-eu") || got.Created.Unix() != 1 {
		t.Errorf("it is found as %+v", got)
	}
	if !strings.HasPrefix(text, Prefix) || tokens.Find(HashOf(text+"x")) != nil || tokens.Find(HashOf("")) != nil {
		t.Errorf("other texts than %q are found", text)
	}
	content, err := os.ReadFile(path)
	if err != nil || bytes.Contains(content, []byte(text)) || bytes.Contains(content, []byte(strings.TrimPrefix(text, Prefix))) {
		t.Errorf("the file is %s, %v", content, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
}

// Each change reads the results of the changes before it, and readers read whole files.
func TestChangesAtTheSameTimeLoseNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	add(t, path, "first")
	const writers, each = 4, 5
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				add(t, path, fmt.Sprintf("w%d-%d", w, i))
			}
		})
	}
	all.Go(func() {
		for range 50 {
			if _, err := Read(path); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
	tokens, err := Read(path)
	if err != nil || len(tokens.List()) != 1+writers*each {
		t.Errorf("there are %d tokens, %v", len(tokens.List()), err)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("there are %v, %v", left, err)
	}
}

func TestAFileThatIsNoFileOfTokensIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	hash := "sha256:" + strings.Repeat("ab", 32)
	for text, want := range map[string]string{
		"":                            "is no file of tokens",
		"[]":                          "is no file of tokens",
		`{"tokens":[]} {}`:            "more after its end",
		`{"tokens":[{"name":"a"}]}`:   "token 1 of 1 has no role",
		`{"tokens":[{"hash":"abc"}]}`: "a hash is not sha256:",
		`{"tokens":[{"name":"a","roles":["submit"],"hash":"` + hash + `","until":"2030-01-01"}]}`: `unknown field "until"`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %v, want %s", text, err, want)
		}
		err := Change(path, func(list []Token) ([]Token, error) { return list, nil })
		if kept, _ := os.ReadFile(path); err == nil || string(kept) != text {
			t.Errorf("a change of %s gives %v, and leaves %s", text, err, kept)
		}
	}
}

func TestAFileThatCannotBeUsedLeavesTheTokensFromBeforeValid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	first := add(t, path, "first")
	log := new(logtest.Buffer)
	w, err := Open(path, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.look()
	}
	if w.Tokens().Find(HashOf(first)) == nil || strings.Count(log.String(), "cannot be used") != 1 {
		t.Errorf("the tokens are %v: %s", w.Tokens().List(), log)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second := add(t, path, "second")
	w.look()
	if w.Tokens().Find(HashOf(first)) != nil || w.Tokens().Find(HashOf(second)) == nil {
		t.Errorf("the tokens are %v: %s", w.Tokens().List(), log)
	}
}

func TestAWatchedFileIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	add(t, path, "first")
	w, err := Open(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var watch sync.WaitGroup
	watch.Go(func() { w.Watch(ctx) })
	defer watch.Wait()
	defer cancel()
	second := HashOf(add(t, path, "second"))
	for begin := time.Now(); w.Tokens().Find(second) == nil; time.Sleep(time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal("it is not read again")
		}
	}
}

// A token of the file hides one of the same hash, is never in doubt, and expires as the others do.
func TestTokensOfAFileAreJoinedWithOthers(t *testing.T) {
	one := func(name string, hash byte, expires int64) Token {
		token := Token{Name: name, Hash: Hash{hash}, Roles: []Role{View}}
		if expires != 0 {
			token.Expires = time.Unix(expires, 0)
		}
		return token
	}
	file, err := NewTokens([]Token{one("a", 1, 0), one("b", 2, 100)})
	if err != nil {
		t.Fatal(err)
	}
	var doubt error
	now := int64(99)
	all := Join(file, []Token{one("c", 1, 0), one("d", 3, 0), one("d", 4, 100)}, func() error { return doubt }, func() time.Time { return time.Unix(now, 0) })
	look := func() (got string) {
		for hash := byte(1); hash <= 5; hash++ {
			token, err := all.Check(Hash{hash})
			switch {
			case errors.Is(err, ErrUnknown):
				got += " unknown"
			case errors.Is(err, ErrExpired):
				got += " expired"
			case errors.Is(err, ErrDoubt):
				got += " doubt"
			default:
				got += " " + token.Name
			}
		}
		return got[1:]
	}
	if got := look(); got != "a b d d unknown" || len(all.List()) != 5 {
		t.Errorf("they are %s", got)
	}
	if now = 100; look() != "a expired d expired unknown" {
		t.Errorf("later they are %s", look())
	}
	if doubt = errors.New("no answer"); look() != "a expired doubt doubt doubt" {
		t.Errorf("in doubt they are %s", look())
	}
}

func TestABearerIsReadFromItsHeader(t *testing.T) {
	for header, want := range map[string]string{"Bearer te_x": "te_x", "bearer te_x ": "te_x", "Basic te_x": "", "te_x": "", "": "", "Bearer": ""} {
		if got := Bearer(header); got != want {
			t.Errorf("%q has %q, want %q", header, got, want)
		}
	}
}
