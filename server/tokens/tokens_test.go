package tokens_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/internal/logtest"
	"github.com/taskengine/taskengine/server/tokens"
)

// unsteady are settings that fail while err is set. Their watches are silent then.
type unsteady struct {
	coord.Config
	err   atomic.Pointer[error]
	stale atomic.Pointer[[]coord.Setting] // returned instead of the settings, if not nil
}

func (u *unsteady) fail(err error) { u.err.Store(&err) }

func (u *unsteady) Settings(ctx context.Context, name string) ([]coord.Setting, error) {
	if err := u.err.Load(); err != nil && *err != nil {
		return nil, *err
	}
	if all := u.stale.Load(); all != nil {
		return *all, nil
	}
	return u.Config.Settings(ctx, name)
}

func (u *unsteady) Watch(ctx context.Context, name string, fn func([]coord.Setting)) error {
	return u.Config.Watch(ctx, name, func(all []coord.Setting) {
		if err := u.err.Load(); err == nil || *err == nil {
			fn(all)
		}
	})
}

// cluster is the settings of nodes, and the tokens of their files.
type cluster struct {
	*testing.T
	shared *unsteady
	file   *access.Tokens
	log    *logtest.Buffer
}

func newCluster(t *testing.T, file ...access.Token) *cluster {
	t.Helper()
	all, err := access.NewTokens(file)
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{t, &unsteady{Config: local.New()}, all, new(logtest.Buffer)}
}

// node returns the kept tokens as a node knows them. It follows their changes until the test ends, unless it is deaf.
func (c *cluster) node(deaf bool) *tokens.Kept {
	c.Helper()
	k, err := tokens.Open(c.Context(), tokens.Config{
		Settings: c.shared, File: func() *access.Tokens { return c.file }, Now: time.Now, Log: slog.New(slog.NewTextHandler(c.log, nil)),
	})
	if err != nil {
		c.Fatal(err)
	}
	if !deaf {
		ctx, stop := context.WithCancel(context.Background())
		var all sync.WaitGroup
		all.Go(func() { k.Watch(ctx) })
		c.Cleanup(func() { stop(); all.Wait() })
	}
	return k
}

// add adds a token, and returns its secret.
func add(t *testing.T, k *tokens.Kept, name string, role access.Role, expires time.Duration) string {
	t.Helper()
	_, secret, err := k.Add(t.Context(), tokens.Request{Name: name, Roles: []access.Role{role}, Expires: expires}, "ann", nil)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// check returns the error of a secret at a node.
func check(k *tokens.Kept, secret string) error {
	_, err := k.Tokens().Check(access.HashOf(secret))
	return err
}

func TestAKeptTokenCountsOnEveryNodeUntilItIsRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		a, b := c.node(false), c.node(false)
		add(t, a, "boss", access.Admin, 0)
		secret := add(t, a, "shop", access.Submit, 0)
		if err := check(a, secret); err != nil {
			t.Errorf("at the node that made it: %v", err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		got, err := b.Tokens().Check(access.HashOf(secret))
		if err != nil || got.Name != "shop" || !got.May(access.Submit) || got.May(access.Manage) {
			t.Errorf("at the other node: %+v, %v", got, err)
		}
		if later := c.node(true); check(later, secret) != nil {
			t.Error("a node that starts later does not know it")
		}
		if _, err := b.Revoke(t.Context(), "shop", "bob", false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		for _, k := range []*tokens.Kept{a, b} {
			if err := check(k, secret); !errors.Is(err, access.ErrUnknown) {
				t.Errorf("after it was revoked: %v", err)
			}
		}
		all, err := a.List(t.Context())
		if err != nil || len(all) != 2 || all[1].State(time.Now()) != tokens.Revoked || all[1].By != "ann" || all[1].RevokedBy != "bob" {
			t.Errorf("the tokens are %+v, %v", all, err)
		}
		again, err := a.Revoke(t.Context(), "shop", "eve", false)
		if err != nil || !reflect.DeepEqual(again, all[1]) {
			t.Errorf("revoked again: %+v, %v", again, err)
		}
	})
}

// The settings notify no one, so a node learns of a revocation by reading.
func TestARevocationReachesANodeThatIsNotNotified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		quiet := &silent{c.shared}
		k, err := tokens.Open(t.Context(), tokens.Config{Settings: quiet, File: func() *access.Tokens { return c.file }, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		ctx, stop := context.WithCancel(context.Background())
		all.Go(func() { k.Watch(ctx) })
		t.Cleanup(func() { stop(); all.Wait() })
		other := c.node(true)
		secret := add(t, other, "shop", access.Submit, 0)
		time.Sleep(1100 * time.Millisecond)
		if err := check(k, secret); err != nil {
			t.Errorf("after it was added: %v", err)
		}
		if _, err := other.Revoke(t.Context(), "shop", "", false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1100 * time.Millisecond)
		if err := check(k, secret); !errors.Is(err, access.ErrUnknown) {
			t.Errorf("after it was revoked: %v", err)
		}
	})
}

// silent are settings without working watches.
type silent struct{ coord.Config }

func (silent) Watch(context.Context, string, func([]coord.Setting)) error {
	return errors.New("there are no notifications")
}

// A server of the coordinator that is not current does not make a token valid again. One with the data of a backup does.
func TestARevokedTokenStaysSoThoughAServerIsNotCurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		k := c.node(false)
		secret := add(t, k, "shop", access.Submit, 0)
		before, err := c.shared.Settings(t.Context(), coord.TokensSetting)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Revoke(t.Context(), "shop", "bob", false); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			c.shared.stale.Store(&before)
			time.Sleep(8 * time.Second)
			if err := check(k, secret); !errors.Is(err, access.ErrUnknown) {
				t.Errorf("by a server that is not current: %v", err)
			}
			c.shared.stale.Store(nil)
			time.Sleep(2 * time.Second)
			if age := k.Age(); age > time.Second {
				t.Errorf("by a current server: the tokens have the age %v", age)
			}
		}
		c.shared.stale.Store(&before)
		time.Sleep(15 * time.Second)
		if err := check(k, secret); err != nil {
			t.Errorf("by the data of a backup: %v", err)
		}
	})
}

func TestANodeThatCannotReadTheTokensSaysSoAndRefusesThemInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		filed := access.NewText()
		c := newCluster(t, access.Token{Name: "filed", Hash: access.HashOf(filed), Roles: []access.Role{access.View}})
		k := c.node(false)
		secret := add(t, k, "shop", access.Submit, 0)
		c.shared.fail(errors.New("no answer"))
		time.Sleep(time.Minute)
		if err := check(k, secret); err != nil || !strings.Contains(c.log.String(), "cannot be read: changes") || k.Age() < 59*time.Second {
			t.Errorf("after a minute: %v, %v, %s", err, k.Age(), c.log)
		}
		if _, _, err := k.Add(t.Context(), tokens.Request{Name: "x", Roles: []access.Role{access.View}}, "", nil); !errors.Is(err, tokens.ErrUnavailable) {
			t.Errorf("a change: %v", err)
		}
		time.Sleep(tokens.RefuseAfter)
		for what, text := range map[string]string{"a kept token": secret, "an unknown token": "te_x"} {
			if err := check(k, text); !errors.Is(err, access.ErrDoubt) || !strings.Contains(err.Error(), "has not been able to read") {
				t.Errorf("%s in the end: %v", what, err)
			}
		}
		if err := check(k, filed); err != nil {
			t.Errorf("a token of the file in the end: %v", err)
		}
		c.shared.fail(nil)
		time.Sleep(2 * time.Second)
		if err := check(k, secret); err != nil {
			t.Errorf("when they can be read again: %v", err)
		}
		for _, says := range []string{"are refused now", "can be read again"} {
			if strings.Count(c.log.String(), says) != 1 {
				t.Errorf("the log does not say once that they %s: %s", says, c.log)
			}
		}
	})
}

func TestATokenExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		k := c.node(true)
		secret := add(t, k, "shop", access.Submit, time.Minute)
		if err := check(k, secret); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if err := check(k, secret); !errors.Is(err, access.ErrExpired) || !strings.Contains(err.Error(), "the token shop has expired") {
			t.Errorf("after its time: %v", err)
		}
		next := add(t, k, "shop", access.Submit, 0)
		if check(k, next) != nil || check(k, secret) == nil {
			t.Error("the name of an expired token cannot be used again, or revives it")
		}
	})
}

func TestARotatedTokenKeepsItsRightsAndItsEarlierSecretForTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		k := c.node(false)
		rotate := func(grace time.Duration) (string, tokens.Record) {
			t.Helper()
			r, secret, err := k.Rotate(t.Context(), "shop", "bob", grace, nil)
			if err != nil {
				t.Fatal(err)
			}
			return secret, r
		}
		first := add(t, k, "shop", access.Submit, 0)
		second, r := rotate(time.Hour)
		if check(k, first) != nil || check(k, second) != nil || r.EarlierUntil(time.Now()) != time.Now().Add(time.Hour).UTC() || r.RotatedBy != "bob" {
			t.Errorf("in the time of grace: %v, %v, %+v", check(k, first), check(k, second), r)
		}
		got, err := k.Tokens().Check(access.HashOf(second))
		if err != nil || got.Name != "shop" || !got.May(access.Submit) || !got.Expires.IsZero() {
			t.Errorf("the rotated token is %+v, %v", got, err)
		}
		time.Sleep(time.Hour)
		if check(k, first) == nil || check(k, second) != nil {
			t.Errorf("after the grace: %v, %v", check(k, first), check(k, second))
		}
		third, _ := rotate(0)
		if check(k, second) == nil || check(k, third) != nil {
			t.Errorf("without grace: %v, %v", check(k, second), check(k, third))
		}
		for range 10 {
			third, _ = rotate(time.Hour)
		}
		if _, _, err := k.Rotate(t.Context(), "shop", "", time.Hour, nil); !errors.Is(err, tokens.ErrNotAllowed) {
			t.Errorf("with too many secrets: %v", err)
		}
		if _, err := k.Revoke(t.Context(), "shop", "", false); err != nil || check(k, third) == nil {
			t.Errorf("revoked: %v, %v", err, check(k, third))
		}
		if _, _, err := k.Rotate(t.Context(), "shop", "", 0, nil); !errors.Is(err, tokens.ErrNotAllowed) || !strings.Contains(err.Error(), "shop is revoked") {
			t.Errorf("a revoked one: %v", err)
		}
	})
}

func TestTheLastTokenThatManagesTokensIsRevokedByForceAlone(t *testing.T) {
	admin := []access.Role{access.Admin}
	for name, one := range map[string]struct {
		file []access.Token
		more tokens.Request
		may  bool
	}{
		"alone":                  {},
		"another one":            {more: tokens.Request{Name: "other", Roles: admin}, may: true},
		"one of the file":        {file: []access.Token{{Name: "filed", Roles: admin}}, may: true},
		"an expired one of it":   {file: []access.Token{{Name: "filed", Roles: admin, Expires: time.Unix(1, 0)}}},
		"one for some types":     {more: tokens.Request{Name: "other", Roles: admin, Types: []string{"mail"}}},
		"one without that right": {more: tokens.Request{Name: "other", Roles: []access.Role{access.Operate}}},
	} {
		t.Run(name, func(t *testing.T) {
			k := newCluster(t, one.file...).node(true)
			secret := add(t, k, "boss", access.Admin, 0)
			if one.more.Name != "" {
				if _, _, err := k.Add(t.Context(), one.more, "", nil); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := k.Revoke(t.Context(), "boss", "", false); (err == nil) != one.may || err != nil && !errors.Is(err, tokens.ErrNotAllowed) || (check(k, secret) == nil) == one.may {
				t.Errorf("revoked: %v, and it is %v", err, check(k, secret))
			}
			if _, err := k.Revoke(t.Context(), "boss", "", true); err != nil || check(k, secret) == nil {
				t.Errorf("with force: %v, and it is %v", err, check(k, secret))
			}
		})
	}
}

func TestATokenGivesNoMoreThanItHas(t *testing.T) {
	k := newCluster(t).node(true)
	maker := &access.Token{Name: "brief", Roles: []access.Role{access.Admin}, Expires: time.Now().Add(time.Hour)}
	add(t, k, "forever", access.View, 0)
	add(t, k, "short", access.View, time.Minute)
	for _, expires := range []time.Duration{0, 2 * time.Hour} {
		if _, _, err := k.Add(t.Context(), tokens.Request{Name: "x", Roles: maker.Roles, Expires: expires}, "", maker); !errors.Is(err, tokens.ErrMore) || !strings.Contains(err.Error(), "the token brief expires at") {
			t.Errorf("a token for %v: %v", expires, err)
		}
	}
	if _, _, err := k.Rotate(t.Context(), "forever", "", 0, maker); !errors.Is(err, tokens.ErrMore) {
		t.Errorf("the secret of a token without end: %v", err)
	}
	if _, _, err := k.Rotate(t.Context(), "short", "", 0, maker); err != nil {
		t.Error(err)
	}
	if _, _, err := k.Add(t.Context(), tokens.Request{Name: "x", Roles: maker.Roles, Expires: 59 * time.Minute}, "", maker); err != nil {
		t.Error(err)
	}
}

func TestChangesThatCannotBeAreRefused(t *testing.T) {
	k := newCluster(t, access.Token{Name: "filed", Roles: []access.Role{access.View}}).node(true)
	add(t, k, "shop", access.Submit, 0)
	view := []access.Role{access.View}
	adding := func(q tokens.Request) error {
		_, _, err := k.Add(t.Context(), q, "", nil)
		return err
	}
	revoking := func(name string) error {
		_, err := k.Revoke(t.Context(), name, "", false)
		return err
	}
	rotating := func(name string, grace time.Duration) error {
		_, _, err := k.Rotate(t.Context(), name, "", grace, nil)
		return err
	}
	for says, c := range map[string]struct{ got, want error }{
		"there is a valid token shop":            {adding(tokens.Request{Name: "shop", Roles: view}), tokens.ErrTaken},
		"the file of api.tokens of the node has": {adding(tokens.Request{Name: "filed", Roles: view}), tokens.ErrTaken},
		"it has the name":                        {adding(tokens.Request{Name: "a b", Roles: view}), tokens.ErrInvalid},
		"it has no role":                         {adding(tokens.Request{Name: "x"}), tokens.ErrInvalid},
		"it has the role \"boss\"":               {adding(tokens.Request{Name: "x", Roles: []access.Role{"boss"}}), tokens.ErrInvalid},
		"it expires in":                          {adding(tokens.Request{Name: "x", Roles: view, Expires: 1 << 62}), tokens.ErrInvalid},
		"filed is in the file":                   {revoking("filed"), tokens.ErrUnknown},
		`"nobody"`:                               {revoking("nobody"), tokens.ErrUnknown},
		"filed is in the file of":                {rotating("filed", 0), tokens.ErrUnknown},
		"the grace is":                           {rotating("shop", 1<<62), tokens.ErrInvalid},
	} {
		if !errors.Is(c.got, c.want) || !strings.Contains(c.got.Error(), says) {
			t.Errorf("got %v, want %v, %s", c.got, c.want, says)
		}
	}
}

func TestConcurrentChangesAreAllMade(t *testing.T) {
	c := newCluster(t)
	var all sync.WaitGroup
	const writers = 8
	for i := range writers {
		k := c.node(true)
		all.Go(func() {
			if _, _, err := k.Add(t.Context(), tokens.Request{Name: fmt.Sprint("t", i), Roles: []access.Role{access.View}}, "", nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got, err := c.node(true).List(t.Context()); err != nil || len(got) != writers {
		t.Errorf("there are %d tokens, %v", len(got), err)
	}
}

func TestRecordsOfTokensThatEndedLongAgoAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCluster(t).node(true)
		add(t, k, "revoked", access.View, 0)
		add(t, k, "expired", access.View, time.Hour)
		if _, err := k.Revoke(t.Context(), "revoked", "", false); err != nil {
			t.Fatal(err)
		}
		count := func() int {
			t.Helper()
			all, err := k.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return len(all)
		}
		time.Sleep(29 * 24 * time.Hour)
		add(t, k, "a", access.View, 0)
		if n := count(); n != 3 {
			t.Errorf("after 29 days there are %d", n)
		}
		time.Sleep(2 * 24 * time.Hour)
		add(t, k, "b", access.View, 0)
		if n := count(); n != 2 {
			t.Errorf("after 31 days there are %d", n)
		}
	})
}

// A field that this version does not know may be a restriction, so tokens with one are not accepted.
func TestTokensThatThisVersionDoesNotUnderstandAreNotAccepted(t *testing.T) {
	c := newCluster(t)
	for _, value := range []string{"", "{", `{"tokens":[]} {}`, `{"tokens":[{"name":"a","roles":["view"],"only_from":"10.0.0.0/8"}]}`, `{"tokens":[{"name":"a"}]}`} {
		at, err := c.shared.Settings(t.Context(), coord.TokensSetting)
		if err != nil {
			t.Fatal(err)
		}
		version := uint64(0)
		if len(at) > 0 {
			version = at[0].Version
		}
		if _, swapped, err := c.shared.Swap(t.Context(), coord.TokensSetting, "", version, []byte(value)); err != nil || !swapped {
			t.Fatal(err)
		}
		if _, err := tokens.Open(t.Context(), tokens.Config{Settings: c.shared, File: func() *access.Tokens { return c.file }}); err == nil || !strings.Contains(err.Error(), "the tokens of the cluster") {
			t.Errorf("with %s a node opens: %v", value, err)
		}
	}
}
