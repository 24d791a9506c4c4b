package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/internal/certtest"
	"github.com/taskengine/taskengine/internal/kafkatest"
	"github.com/taskengine/taskengine/internal/tlsfiles"
	"github.com/taskengine/taskengine/kafka"
)

func secret(text string) func() (string, error) {
	return func() (string, error) { return text, nil }
}

// probe returns what a probe of the connection says.
func probe(t *testing.T, c kafka.Connection) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := c.Probe(ctx); err != nil {
		return err.Error()
	}
	return ""
}

func TestConnectionsWithTLSAndUsers(t *testing.T) {
	t.Parallel()
	authority, foreign := certtest.New(t), certtest.New(t)
	own := authority.Issue(t, "client")
	cluster := kafkatest.New(t, 1, kafkatest.WithTLS(authority.Issue(t, "server", "127.0.0.1").Both, authority.File),
		kafkatest.WithUsers(map[string]string{"admin": "admin-secret", "te": "te-secret"}),
		kafkatest.WithLines("authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users=User:admin;User:ANONYMOUS"))
	files := tlsfiles.Client{CA: authority.File, Cert: own.File, Key: own.KeyFile}
	as := func(change func(*kafka.Connection)) kafka.Connection {
		encryption := files
		c := kafka.Connection{
			Name: "main", Brokers: cluster.Brokers(), TLS: &encryption,
			SASL: &kafka.SASL{Mechanism: kafka.SCRAM256, User: "te", Secret: secret("te-secret")},
		}
		change(&c)
		return c
	}
	for name, c := range map[string]struct {
		change func(*kafka.Connection)
		want   string // in the error; "" for none
	}{
		"scram-sha-256":         {func(*kafka.Connection) {}, ""},
		"scram-sha-512":         {func(c *kafka.Connection) { c.SASL.Mechanism = kafka.SCRAM512 }, ""},
		"plain":                 {func(c *kafka.Connection) { c.SASL.Mechanism = kafka.Plain }, ""},
		"a wrong password":      {func(c *kafka.Connection) { c.SASL.Secret = secret("wrong") }, "kafka.main: the brokers refuse the user; correct kafka.main.sasl"},
		"an unknown user":       {func(c *kafka.Connection) { c.SASL.User = "nobody" }, "the brokers refuse the user"},
		"a mechanism they lack": {func(c *kafka.Connection) { c.SASL.Mechanism = kafka.OAuthBearer }, "the brokers refuse the user"},
		"no user":               {func(c *kafka.Connection) { c.SASL = nil }, "perhaps they need kafka.main.tls or sasl"},
		"a secret that is away": {func(c *kafka.Connection) {
			c.SASL.Secret = func() (string, error) { return "", errors.New("no such file") }
		}, "no such file"},
		"no TLS":                 {func(c *kafka.Connection) { c.TLS = nil }, "perhaps they need kafka.main.tls or sasl"},
		"no certificate":         {func(c *kafka.Connection) { c.TLS.Cert, c.TLS.Key = "", "" }, "correct kafka.main.tls"},
		"a foreign certificate":  {func(c *kafka.Connection) { f := foreign.Issue(t, "client"); c.TLS.Cert, c.TLS.Key = f.File, f.KeyFile }, "correct kafka.main.tls"},
		"a foreign authority":    {func(c *kafka.Connection) { c.TLS.CA = foreign.File }, "correct kafka.main.tls"},
		"a file that is missing": {func(c *kafka.Connection) { c.TLS.CA = "/nowhere" }, "kafka.main.tls: ca: open /nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := probe(t, as(c.change))
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("it says %q, want %q", got, c.want)
			}
			if strings.Contains(got, "te-secret") {
				t.Errorf("it shows the password: %q", got)
			}
		})
	}
	t.Run("what the user may not see", func(t *testing.T) {
		admin, err := as(func(c *kafka.Connection) { c.SASL.User, c.SASL.Secret = "admin", secret("admin-secret") }).Client()
		if err != nil {
			t.Fatal(err)
		}
		defer admin.Close()
		kafkatest.CreateTopic(t, kadm.NewClient(admin), 1, 1, nil, "secrets")
		c := as(func(*kafka.Connection) {})
		err = c.ProbeTopic(t.Context(), "secrets")
		if err == nil || !strings.Contains(err.Error(), "the user may not write to topic secrets") {
			t.Errorf("probe: %v", err)
		}
		kafkatest.CreateTopic(t, kadm.NewClient(admin), 1, 1, nil, "shown")
		allow := func(operation kadm.ACLOperation) {
			t.Helper()
			acl := kadm.NewACLs().Topics("shown").ResourcePatternType(kadm.ACLPatternLiteral).Operations(operation).Allow("User:te")
			if made, err := kadm.NewClient(admin).CreateACLs(t.Context(), acl); err != nil || made[0].Err != nil {
				t.Fatal(err, made)
			}
		}
		allow(kadm.OpDescribe)
		reading := func(c kafka.Connection, want map[string]string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			said := func() string { // "" if it is as wanted
				found, err := c.ProbeReading(ctx, slices.Sorted(maps.Keys(want))...)
				if err != nil {
					t.Fatal(err)
				}
				for topic, text := range want {
					if err := found[topic]; (err == nil) != (text == "") || err != nil && !strings.Contains(err.Error(), text) {
						return fmt.Sprintf("reading %s: %v, want %q", topic, err, text)
					}
				}
				return ""
			}
			wrong := said()
			for wrong != "" && ctx.Err() == nil { // a broker learns of rights later than their creation is answered
				wrong = said()
			}
			if wrong != "" {
				t.Error(wrong)
			}
		}
		const unreadable = "kafka.main: the user may not read topic %s; allow it to, by an ACL for READ"
		reading(c, map[string]string{"secrets": fmt.Sprintf(unreadable, "secrets"), "shown": fmt.Sprintf(unreadable, "shown")})
		allow(kadm.OpRead)
		reading(c, map[string]string{"secrets": fmt.Sprintf(unreadable, "secrets"), "shown": ""})
		reading(as(func(c *kafka.Connection) { c.SASL.User, c.SASL.Secret = "admin", secret("admin-secret") }), map[string]string{
			"secrets": "", "missing": "kafka.main: there is no topic missing that the user may see; create it", "a/b": "kafka.main: no topic can be called a/b",
		})
		client, err := c.Client()
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		err = client.ProduceSync(t.Context(), &kgo.Record{Topic: "secrets", Value: []byte("x")}).FirstErr()
		if r, ok := kafka.RefusalOf("secrets", err); !ok || r.Class != kafka.NotAuthorised {
			t.Errorf("produce: %v, %+v", err, r)
		}
	})
	t.Run("files and secrets are read for each connection", func(t *testing.T) {
		var password atomic.Pointer[string]
		wrong, right := "wrong", "te-secret"
		password.Store(&wrong)
		expired := authority.IssueExpired(t, "client")
		c := as(func(c *kafka.Connection) {
			c.TLS.Cert, c.TLS.Key = expired.File, expired.KeyFile
			c.SASL.Secret = func() (string, error) { return *password.Load(), nil }
		})
		client, err := c.Client()
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if err := client.Ping(t.Context()); err == nil {
			t.Fatal("an expired certificate works")
		}
		expired.Replace(t, authority.Issue(t, "client"))
		if err := c.Unreachable(client.Ping(t.Context())); !strings.Contains(err.Error(), "the brokers refuse the user") {
			t.Fatalf("with a wrong password: %v", err)
		}
		password.Store(&right)
		if err := client.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// A token is read again for each connection, and one that is over is refused.
func TestAConnectionWithATokenUsesItAsItIsNow(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.New(t, 1, kafkatest.WithTokens())
	var token atomic.Pointer[string]
	c := kafka.Connection{Name: "main", Brokers: cluster.Brokers(), SASL: &kafka.SASL{
		Mechanism: kafka.OAuthBearer, Secret: func() (string, error) { return *token.Load(), nil },
	}}
	use := func(new string) string {
		t.Helper()
		token.Store(&new)
		return probe(t, c)
	}
	over := kafkatest.Token("te", time.Now().Add(-time.Hour))
	if got := use(over); !strings.Contains(got, "kafka.main: the brokers refuse the user; correct kafka.main.sasl") || strings.Contains(got, over) {
		t.Errorf("with a token that is over: %q", got)
	}
	if got := use(kafkatest.Token("te", time.Now().Add(time.Hour))); got != "" {
		t.Errorf("with another one: %q", got)
	}
}

func TestABrokerThatIsAwayIsNamed(t *testing.T) {
	t.Parallel()
	got := probe(t, kafka.Connection{Name: "main", Brokers: []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4"}})
	if !strings.Contains(got, "kafka.main: no broker of it answers; look whether 127.0.0.1:1, 127.0.0.1:2, 127.0.0.1:3 and the others can be reached from here") {
		t.Errorf("it says %q", got)
	}
}
