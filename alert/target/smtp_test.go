package target_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"log/slog"
	"mime"
	"mime/quotedprintable"
	"net/mail"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/alert"
	"github.com/taskengine/taskengine/alert/target"
	"github.com/taskengine/taskengine/internal/certtest"
	"github.com/taskengine/taskengine/internal/smtptest"
)

// evil is a notification about a type with a name, and a task with an error, that try to add headers and commands.
func evil() alert.Notification {
	name := "mail\r\nBcc: victim@example.com\r\n\r\n.\r\nRSET"
	return alert.Notification{
		Version: 1, ID: "0123456789abcdef", At: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), Target: "ops", Node: "node-a", Rule: "errors",
		When: alert.Errors, Status: alert.Firing, Summary: "2 tasks of type " + name + " are in error: größer",
		Alerts: []alert.Item{{
			Status: alert.Firing, Labels: map[string]string{"type": name}, Since: time.Date(2030, 1, 2, 3, 0, 0, 0, time.UTC), Value: 2,
			Summary: "2 tasks of type " + name + " are in error", Detail: "failed\r\n.\r\nQUIT\x1b[2J",
		}},
	}
}

func smtpTarget(s *smtptest.Server, ca *certtest.Authority, how target.Encryption, log *slog.Logger) *target.SMTP {
	c := target.SMTPConfig{
		Server: s.Addr, Encryption: how, User: "alice", Password: "secret", From: "taskengine@example.com",
		To: []string{"ops@example.com", "boss@example.com"}, Timeout: 2 * time.Minute, Log: log,
	}
	if ca != nil {
		c.TLS = ca.Client()
	}
	return target.NewSMTP(c)
}

func TestAMailIsEncryptedAndHasWhatIsToBeKnown(t *testing.T) {
	ca := certtest.New(t)
	cert := ca.Issue(t, "mail", "127.0.0.1")
	for name, server := range map[string]*smtptest.Server{
		"starttls and plain": {TLS: serverTLS(cert), Auth: "PLAIN"},
		"implicit and login": {TLS: serverTLS(cert), Implicit: true, Auth: "LOGIN"},
	} {
		t.Run(name, func(t *testing.T) {
			server.Start(t)
			how := target.StartTLS
			if server.Implicit {
				how = target.TLS
			}
			if err := smtpTarget(server, ca, how, slog.New(slog.DiscardHandler)).Send(t.Context(), evil()); err != nil {
				t.Fatal(err)
			}
			checkMail(t, server.Mails())
		})
	}
}

func checkMail(t *testing.T, mails []smtptest.Mail) {
	t.Helper()
	if len(mails) != 1 {
		t.Fatalf("%d mails arrived: %+v", len(mails), mails)
	}
	m := mails[0]
	if !m.TLS || m.User != "alice secret" || m.From != "taskengine@example.com" || strings.Join(m.To, " ") != "ops@example.com boss@example.com" {
		t.Errorf("the mail is %+v", m)
	}
	read, err := mail.ReadMessage(strings.NewReader(m.Data))
	if err != nil {
		t.Fatalf("the mail is no mail: %v\n%s", err, m.Data)
	}
	if len(read.Header) != 9 || read.Header.Get("Bcc") != "" {
		t.Errorf("the headers are %v", read.Header)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(read.Header.Get("Subject"))
	if want := `[taskengine] errors: 2 tasks of type mail\r\nBcc: victim@example.com\r\n\r\n.\r\nRSET are in error: größer`; err != nil || subject != want {
		t.Errorf("the subject is %q, %v", subject, err)
	}
	if got := read.Header.Get("Message-Id"); got != "<0123456789abcdef@example.com>" {
		t.Errorf("the message id is %q", got)
	}
	if list, err := read.Header.AddressList("To"); err != nil || len(list) != 2 {
		t.Errorf("the recipients are %v, %v", list, err)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(read.Body))
	if err != nil || !strings.Contains(string(body), `failed\r\n.\r\nQUIT\x1b[2J`) || !strings.Contains(string(body), "since 2030-01-02T03:00:00Z") {
		t.Errorf("the text is %q, %v", body, err)
	}
}

func TestAMailThatIsNotAcceptedIsAnError(t *testing.T) {
	ca := certtest.New(t)
	cert := ca.Issue(t, "mail", "127.0.0.1")
	for name, c := range map[string]struct {
		server *smtptest.Server
		how    target.Encryption
		want   string
	}{
		"no STARTTLS":       {&smtptest.Server{}, target.StartTLS, "does not offer STARTTLS"},
		"password":          {&smtptest.Server{TLS: serverTLS(cert), Auth: "PLAIN", Answer: answers("AUTH", "535 wrong password")}, target.StartTLS, "log in as alice: 535 \"wrong password\""},
		"sender":            {&smtptest.Server{TLS: serverTLS(cert), Auth: "PLAIN", Answer: answers("MAIL", "550 not you")}, target.StartTLS, "refuses the sender"},
		"all recipients":    {&smtptest.Server{TLS: serverTLS(cert), Auth: "PLAIN", Answer: answers("RCPT", "550 unknown")}, target.StartTLS, "refuses the recipient boss@example.com: 550 \"unknown\""},
		"content":           {&smtptest.Server{TLS: serverTLS(cert), Auth: "PLAIN", Answer: answers(".", "451 later")}, target.StartTLS, `451 "later"`},
		"no encrypted line": {&smtptest.Server{Auth: "LOGIN"}, target.Plain, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.server.Start(t)
			err := smtpTarget(c.server, ca, c.how, slog.New(slog.DiscardHandler)).Send(t.Context(), evil())
			if c.want == "" {
				if err != nil { // the machine itself may get a password in plain text
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("the error is %v", err)
			}
			if got := c.server.Mails(); len(got) > 0 {
				t.Errorf("mails arrived: %+v", got)
			}
		})
	}
}

func TestARecipientThatIsRefusedIsLogged(t *testing.T) {
	server := smtptest.Server{Answer: func(command, argument string) string {
		if command == "RCPT" && strings.Contains(argument, "boss") {
			return "550 gone"
		}
		return ""
	}}
	server.Start(t)
	var log bytes.Buffer
	s := target.NewSMTP(target.SMTPConfig{
		Server: server.Addr, Encryption: target.Plain, From: "a@example.com", To: []string{"boss@example.com", "ops@example.com"},
		Timeout: 2 * time.Minute, Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err := s.Send(t.Context(), evil()); err != nil {
		t.Fatal(err)
	}
	if got := server.Mails(); len(got) != 1 || strings.Join(got[0].To, " ") != "ops@example.com" || !strings.Contains(log.String(), "boss@example.com: 550") {
		t.Errorf("mails %+v, log %s", got, log.String())
	}
}

func answers(to, with string) func(string, string) string {
	return func(command, _ string) string {
		if command == to {
			return with
		}
		return ""
	}
}

func serverTLS(cert certtest.Certificate) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{cert.Certificate}, MinVersion: tls.VersionTLS12}
}
