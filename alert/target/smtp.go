package target

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/smtp"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/alert"
)

// Encryption is how the connection with a mail server is encrypted.
type Encryption uint8

// The ways.
const (
	StartTLS Encryption = iota // the connection begins in plain text, and the server must offer STARTTLS
	TLS                        // from the beginning
	Plain                      // not at all
)

// SMTPConfig says how mails are sent.
type SMTPConfig struct {
	Server     string // host:port
	Encryption Encryption
	TLS        *tls.Config // nil is the default
	User       string      // "": no login
	Password   string
	From       string // an address without a name
	To         []string
	Timeout    time.Duration // of one mail
	Log        *slog.Logger
}

// SMTP sends each notification as a mail in plain text.
type SMTP struct{ config SMTPConfig }

// NewSMTP returns a target that sends mails.
func NewSMTP(c SMTPConfig) *SMTP { return &SMTP{c} }

// Send implements [Target]. It succeeds if the server accepts the mail for one of the recipients; that it
// refuses others is logged.
func (s *SMTP) Send(ctx context.Context, n alert.Notification) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.config.Timeout, fmt.Errorf("the mail was not accepted within %v", s.config.Timeout))
	defer cancel()
	err := s.send(ctx, &n)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (s *SMTP) send(ctx context.Context, n *alert.Notification) error {
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if err := s.login(c); err != nil {
		return err
	}
	if err := c.Mail(s.config.From); err != nil {
		return fmt.Errorf("the server refuses the sender %s: %w", s.config.From, err)
	}
	var refused []error
	for _, to := range s.config.To {
		if err := c.Rcpt(to); err != nil {
			refused = append(refused, fmt.Errorf("the server refuses the recipient %s: %w", to, err))
		}
	}
	if len(refused) == len(s.config.To) {
		return errors.Join(refused...)
	}
	for _, err := range refused {
		s.config.Log.Warn("a recipient of alerts gets no mail", "error", err)
	}
	w, err := c.Data()
	if err != nil {
		return fmt.Errorf("the server refuses the mail: %w", err)
	}
	if _, err := w.Write(s.mail(n)); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("the server refuses the mail: %w", err)
	}
	_ = c.Quit() // it is accepted
	return nil
}

// connect connects, and encrypts the connection.
func (s *SMTP) connect(ctx context.Context) (*smtp.Client, error) {
	host, _, err := net.SplitHostPort(s.config.Server)
	if err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.config.Server)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline) // an error would come with the next use, too
	}
	secure := &tls.Config{}
	if s.config.TLS != nil {
		secure = s.config.TLS.Clone()
	}
	secure.ServerName = host
	if s.config.Encryption == TLS {
		conn = tls.Client(conn, secure)
	}
	c, err := smtp.NewClient(conn, host)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("the server does not speak SMTP: %w", err)
	}
	if s.config.Encryption != StartTLS {
		return c, nil
	}
	if ok, _ := c.Extension("STARTTLS"); !ok {
		c.Close()
		return nil, errors.New("the server does not offer STARTTLS; set tls to implicit or none, or have it offer STARTTLS")
	}
	if err := c.StartTLS(secure); err != nil {
		c.Close()
		return nil, fmt.Errorf("encrypt the connection: %w", err)
	}
	return c, nil
}

func (s *SMTP) login(c *smtp.Client) error {
	if s.config.User == "" {
		return nil
	}
	host, _, _ := net.SplitHostPort(s.config.Server)
	_, offered := c.Extension("AUTH")
	methods := strings.Fields(offered)
	auth := smtp.PlainAuth("", s.config.User, s.config.Password, host)
	if !slices.Contains(methods, "PLAIN") && slices.Contains(methods, "LOGIN") {
		auth = &loginAuth{user: s.config.User, password: s.config.Password}
	}
	if err := c.Auth(auth); err != nil {
		return fmt.Errorf("log in as %s: %w", s.config.User, err)
	}
	return nil
}

// loginAuth is the method LOGIN, which some servers offer alone.
type loginAuth struct {
	user, password string
	asked          int
}

// Start implements [smtp.Auth].
func (a *loginAuth) Start(server *smtp.ServerInfo) (string, []byte, error) {
	if !server.TLS && server.Name != "localhost" && server.Name != "127.0.0.1" && server.Name != "::1" {
		return "", nil, errors.New("the connection is not encrypted")
	}
	return "LOGIN", nil, nil
}

// Next implements [smtp.Auth]. The server asks for the user first.
func (a *loginAuth) Next(_ []byte, more bool) ([]byte, error) {
	if !more {
		return nil, nil
	}
	a.asked++
	switch a.asked {
	case 1:
		return []byte(a.user), nil
	case 2:
		return []byte(a.password), nil
	}
	return nil, errors.New("the server asks for more than a user and a password")
}

// mail returns the mail of a notification.
func (s *SMTP) mail(n *alert.Notification) []byte {
	_, domain, _ := strings.Cut(s.config.From, "@")
	var b bytes.Buffer
	header := func(name, value string) { fmt.Fprintf(&b, "%s: %s\r\n", name, textproto.TrimString(value)) }
	header("From", s.config.From)
	header("To", strings.Join(s.config.To, ",\r\n "))
	header("Subject", subject(n))
	header("Date", n.At.UTC().Format(time.RFC1123Z))
	header("Message-ID", fmt.Sprintf("<%s@%s>", n.ID, domain))
	header("Auto-Submitted", "auto-generated")
	header("MIME-Version", "1.0")
	header("Content-Type", "text/plain; charset=utf-8")
	header("Content-Transfer-Encoding", "quoted-printable")
	b.WriteString("\r\n")
	body := quotedprintable.NewWriter(&b)
	_, _ = body.Write([]byte(text(n))) // a buffer takes everything
	_ = body.Close()
	return b.Bytes()
}

// subject returns the subject of a mail: one line of ASCII, folded.
func subject(n *alert.Notification) string {
	const most = 150 // characters
	line := []rune(title(n))
	if len(line) > most {
		line = append(line[:most], '…')
	}
	return strings.ReplaceAll(mime.QEncoding.Encode("utf-8", string(line)), "?= =?", "?=\r\n =?")
}
