// Package smtptest is a mail server for tests. It speaks SMTP over TCP and keeps the mails.
package smtptest

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"strings"
	"sync"
	"testing"
)

// Mail is a mail that was accepted.
type Mail struct {
	From string
	To   []string
	Data string // with headers; lines end with \n
	User string // the login as "user password"; "" without one
	TLS  bool   // the connection was encrypted
}

// Server is a mail server. Its fields are set before Start.
type Server struct {
	TLS      *tls.Config // of STARTTLS, or of all connections if Implicit; nil: neither
	Implicit bool
	Auth     string                                // methods that are offered, such as "PLAIN"; "" is none
	Answer   func(command, argument string) string // replaces the answer to a command if it is not ""; nil is none

	Addr string // set by Start

	mu    sync.Mutex
	mails []Mail // guarded by mu
}

// Start starts the server, which ends with the test.
func (s *Server) Start(tb testing.TB) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s.Addr = l.Addr().String()
	if s.Implicit {
		l = tls.NewListener(l, s.TLS)
	}
	var wg sync.WaitGroup
	tb.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				(&session{server: s, conn: conn, mail: Mail{TLS: s.Implicit}}).serve()
			})
		}
	})
}

// Mails returns the mails that were accepted, in order.
func (s *Server) Mails() []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Mail(nil), s.mails...)
}

type session struct {
	server *Server
	conn   net.Conn
	in     *bufio.Reader
	mail   Mail
}

func (c *session) say(format string, args ...any) { fmt.Fprintf(c.conn, format+"\r\n", args...) }

func (c *session) line() (string, error) {
	line, err := c.in.ReadString('\n')
	return strings.TrimRight(line, "\r\n"), err
}

func (c *session) serve() {
	c.in = bufio.NewReader(c.conn)
	c.say("220 test")
	for {
		line, err := c.line()
		if err != nil {
			return
		}
		command, argument, _ := strings.Cut(line, " ")
		command = strings.ToUpper(command)
		if c.server.Answer != nil {
			if answer := c.server.Answer(command, argument); answer != "" {
				c.say("%s", answer)
				continue
			}
		}
		if !c.do(command, argument) {
			return
		}
	}
}

// do does a command, and reports whether the session goes on.
func (c *session) do(command, argument string) bool {
	switch command {
	case "EHLO":
		c.say("250-test")
		if c.server.TLS != nil && !c.mail.TLS {
			c.say("250-STARTTLS")
		}
		if c.server.Auth != "" {
			c.say("250-AUTH %s", c.server.Auth)
		}
		c.say("250 8BITMIME")
	case "STARTTLS":
		c.say("220 go on")
		secure := tls.Server(c.conn, c.server.TLS)
		if secure.Handshake() != nil {
			return false
		}
		c.conn, c.in, c.mail = secure, bufio.NewReader(secure), Mail{TLS: true}
	case "AUTH":
		return c.login(argument)
	case "MAIL":
		c.mail.From, c.mail.To = address(argument), nil
		c.say("250 ok")
	case "RCPT":
		c.mail.To = append(c.mail.To, address(argument))
		c.say("250 ok")
	case "DATA":
		return c.data()
	case "QUIT":
		c.say("221 bye")
		return false
	default:
		c.say("250 ok")
	}
	return true
}

func (c *session) login(argument string) bool {
	method, initial, _ := strings.Cut(argument, " ")
	if method == "LOGIN" {
		var said []string
		for _, ask := range []string{"Username:", "Password:"} {
			c.say("334 %s", base64.StdEncoding.EncodeToString([]byte(ask)))
			line, err := c.line()
			if err != nil {
				return false
			}
			word, _ := base64.StdEncoding.DecodeString(line)
			said = append(said, string(word))
		}
		c.mail.User = strings.Join(said, " ")
	} else {
		word, _ := base64.StdEncoding.DecodeString(initial)
		c.mail.User = strings.TrimSpace(strings.ReplaceAll(string(word), "\x00", " "))
	}
	c.say("235 welcome")
	return true
}

func (c *session) data() bool {
	c.say("354 go on")
	data, err := io.ReadAll(textproto.NewReader(c.in).DotReader())
	if err != nil {
		return false
	}
	c.mail.Data = string(data)
	if c.server.Answer != nil {
		if answer := c.server.Answer(".", ""); answer != "" {
			c.say("%s", answer)
			return true
		}
	}
	c.server.mu.Lock()
	c.server.mails = append(c.server.mails, c.mail)
	c.server.mu.Unlock()
	c.say("250 accepted")
	return true
}

// address returns the part between < and >.
func address(argument string) string {
	_, rest, _ := strings.Cut(argument, "<")
	found, _, _ := strings.Cut(rest, ">")
	return found
}
