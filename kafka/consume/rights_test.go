package consume_test

import (
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/taskengine/taskengine/internal/certtest"
	"github.com/taskengine/taskengine/internal/kafkatest"
	"github.com/taskengine/taskengine/internal/tlsfiles"
	"github.com/taskengine/taskengine/kafka"
)

// logged is the log of a node.
type logged struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

// restricted is a cluster with brokers that want TLS and users, with the topics open, sealed and hidden.
type restricted struct {
	*kafkatest.Cluster
	admin    *kadm.Client
	user     kafka.Connection
	password atomic.Pointer[string] // of the user
}

// newRestricted returns brokers with a user that may read the topic open, and see the topic sealed.
func newRestricted(t *testing.T) *restricted {
	authority := certtest.New(t)
	own := authority.Issue(t, "client")
	c := &restricted{Cluster: kafkatest.New(t, 1, kafkatest.WithTLS(authority.Issue(t, "server", "127.0.0.1").Both, authority.File),
		kafkatest.WithUsers(map[string]string{"admin": "admin-secret", "te": "te-secret"}),
		kafkatest.WithLines("authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users=User:admin;User:ANONYMOUS"))}
	c.password.Store(new("te-secret"))
	as := func(user string, password func() (string, error)) kafka.Connection {
		return kafka.Connection{
			Name: "main", Brokers: c.Brokers(), TLS: &tlsfiles.Client{CA: authority.File, Cert: own.File, Key: own.KeyFile},
			SASL: &kafka.SASL{Mechanism: kafka.SCRAM256, User: user, Secret: password},
		}
	}
	c.user = as("te", func() (string, error) { return *c.password.Load(), nil })
	client, err := as("admin", func() (string, error) { return "admin-secret", nil }).Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	c.admin = kadm.NewClient(client)
	for i, topic := range []string{"open", "sealed", "hidden"} {
		kafkatest.CreateTopic(t, c.admin, 1, 1, nil, topic)
		if err := client.ProduceSync(t.Context(), numbered(topic, 1, 10*i, 10)...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	c.allow(t, kadm.NewACLs().Topics("open").Operations(kadm.OpRead))
	c.allow(t, kadm.NewACLs().Topics("sealed").Operations(kadm.OpDescribe))
	return c
}

func (c *restricted) allow(t *testing.T, rights *kadm.ACLBuilder) {
	t.Helper()
	made, err := c.admin.CreateACLs(t.Context(), rights.ResourcePatternType(kadm.ACLPatternLiteral).Allow("User:te"))
	if err != nil || made[0].Err != nil {
		t.Fatal(err, made)
	}
}

// A source without rights says which it lacks, reads the other topics, and loses nothing. A password that changes while the
// source runs is used for the next connection.
func TestASourceSaysWhichRightsItLacksAndReadsTheOtherTopics(t *testing.T) {
	t.Parallel()
	c := newRestricted(t)
	var log logged
	n := &node{t: t, cluster: c, store: newStore(), log: slog.New(slog.NewTextHandler(&log, nil)), connect: c.user}
	n.open(definition("orders", "open", "sealed", "hidden"))
	t.Cleanup(n.close)
	n.await("the topic that it may read", func() bool { tasks, _ := n.ran(); return tasks == 10 })
	const hidden, sealed = "kafka.main: the user may not read topic hidden; allow it to, by ACLs for READ and DESCRIBE", "kafka.main: the user may not read topic sealed; allow it to"
	n.await("what it may not see", func() bool { return strings.Contains(n.status("orders").Problem, hidden) })
	n.await("what it may not read", func() bool {
		for _, p := range n.status("orders").Partitions {
			if p.Topic == "sealed" && strings.Contains(p.Message, sealed) {
				return true
			}
		}
		return false
	})
	n.await("the group that it may not use", func() bool {
		return log.has("the user may not commit to the consumer group; allow it to, by an ACL for READ of the group") && log.has("group=group-orders")
	})
	c.allow(t, kadm.NewACLs().Topics("sealed", "hidden").Operations(kadm.OpRead))
	c.allow(t, kadm.NewACLs().Groups("group-orders").Operations(kadm.OpRead))
	n.await("all topics", func() bool { n.look(); tasks, most := n.ran(); return tasks == 30 && most == 1 })
	n.await("no problem", func() bool { s := n.status("orders"); return s.Problem == "" && s.Lag == 0 })
	n.await("the positions of the group", func() bool {
		offsets, err := c.admin.FetchOffsets(t.Context(), "group-orders")
		return err == nil && offsets.Offsets()["sealed"][0].At == 10
	})

	upsert := kadm.UpsertSCRAM{User: "te", Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "changed"}
	if _, err := c.admin.AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{upsert}); err != nil {
		t.Fatal(err)
	}
	if err := c.Kill(0); err != nil { // ends the connections of the old password
		t.Fatal(err)
	}
	if err := c.Restart(0); err != nil {
		t.Fatal(err)
	}
	n.await("a user that is refused", func() bool {
		n.look()
		return strings.Contains(n.status("orders").Problem, "kafka.main: the brokers refuse the user; correct kafka.main.sasl")
	})
	c.password.Store(new("changed"))
	n.await("the new password", func() bool { n.look(); s := n.status("orders"); return s.Problem == "" && s.Lag == 0 })
	if tasks, most := n.ran(); tasks != 30 || most != 1 {
		t.Errorf("%d tasks have run, one of them %d times", tasks, most)
	}
}
