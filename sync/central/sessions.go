package central

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"grattoir/sync/ledger/people"
	"grattoir/sync/wire"
)

const (
	sessionIdle = 30 * time.Minute // with no request
	sessionLife = 12 * time.Hour   // a day's work
	usedWithin  = time.Minute      // a session's last use is stored no finer, for the sake of the disk
	tokenBytes  = 32

	// A guess costs 64 MiB while it runs: so many run at a time, the others wait.
	guessesAtOnce = 2
)

var (
	// ErrWrong means that name and password do not belong together, or that the user is
	// suspended. Which of them is not told.
	ErrWrong = errors.New("name or password is wrong")
	// ErrNoSession means that the session has ended, or never was.
	ErrNoSession = errors.New("the session has ended")
)

// WaitError means that wrong passwords came before, and the next is not looked at yet.
type WaitError struct{ After time.Duration }

func (e *WaitError) Error() string {
	return fmt.Sprintf("too many wrong passwords: wait %v", e.After.Round(time.Second))
}

// Session is a user who is signed in.
type Session struct {
	Name string
	Role Role
	Ends time.Time // at the latest
}

// SignIn looks at a password and begins a session. The token is what the browser holds;
// central keeps its hash. From is the address it comes from. The audit has each password
// that was looked at. The errors are ErrWrong, *WaitError, and those of the store.
func (c *Central) SignIn(ctx context.Context, name string, p Password, from netip.Addr) (token string, s Session, err error) {
	u, err := c.authenticate(ctx, name, p, from)
	if err != nil {
		return "", Session{}, err
	}
	raw := make([]byte, tokenBytes)
	_, _ = rand.Read(raw) // never fails: the program would have ended
	token = base64.RawURLEncoding.EncodeToString(raw)
	sum := sha256.Sum256([]byte(token))
	now := c.opt.Now()
	s = Session{Name: name, Role: u.role, Ends: now.Add(sessionLife)}
	err = c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		// The row is held: a suspension or another password may have come meanwhile.
		var suspended int
		var stored string
		err := tx.QueryRowContext(ctx, "UPDATE users SET name = name WHERE name = $1 RETURNING suspended, password, role", name).Scan(&suspended, &stored, &s.Role)
		if err == nil && (suspended != 0 || stored != u.stored) {
			err = ErrWrong
		}
		if err != nil {
			return err
		}
		if u.anew != "" {
			if _, err := tx.ExecContext(ctx, "UPDATE users SET password = $1 WHERE name = $2", u.anew, name); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM sessions WHERE began <= $1 OR used <= $2", wire.FormatTime(now.Add(-sessionLife)), wire.FormatTime(now.Add(-sessionIdle))); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO sessions(token, name, began, used) VALUES($1, $2, $3, $4)", sum[:], name, wire.FormatTime(now), wire.FormatTime(now)); err != nil {
			return err
		}
		return c.auditLine(ctx, tx, "sign-in", name, "from "+place(from))
	})
	if err != nil {
		return "", Session{}, err
	}
	return token, s, nil
}

// proven is a user whose password was right. Anew is its hash at today's cost, "" where the
// stored one has that.
type proven struct {
	role         Role
	stored, anew string
}

// Authenticate tells the role of a user who shows his password, for one act of a command.
// The errors are those of SignIn.
func (c *Central) Authenticate(ctx context.Context, name string, p Password) (Role, error) {
	u, err := c.authenticate(ctx, name, p, netip.Addr{})
	return u.role, err
}

func (c *Central) authenticate(ctx context.Context, name string, p Password, from netip.Addr) (proven, error) {
	if err := c.guesses.begin(name, from, c.opt.Now()); err != nil {
		c.meters.signIn("too-soon")
		return proven{}, err
	}
	u, right, err := c.tryPassword(ctx, name, p)
	if err != nil {
		return proven{}, err
	}
	if right {
		c.meters.signIn("right")
		c.guesses.forgive(name, from, c.opt.Now())
		return u, nil
	}
	c.meters.signIn("wrong")
	// A name that is nobody's is not written down: it may be a password in the wrong field.
	about := "a name that is nobody's"
	if u.stored != "" {
		about = name
	}
	if err := c.Note(ctx, "sign-in-failed", "", about+", from "+place(from)); err != nil {
		return proven{}, err
	}
	return proven{}, ErrWrong
}

// place is where a try came from, for the audit.
func place(from netip.Addr) string {
	if !from.IsValid() {
		return "a command on central's machine"
	}
	return from.String()
}

// tryPassword holds a password against the user's hash, or against one of nobody's, which
// takes as long. A suspended user's is never right.
func (c *Central) tryPassword(ctx context.Context, name string, p Password) (u proven, right bool, err error) {
	select {
	case c.guesses.gate <- struct{}{}:
		defer func() { <-c.guesses.gate }()
	case <-ctx.Done():
		return u, false, ctx.Err()
	}
	var suspended int
	err = c.store.reader().QueryRowContext(ctx, "SELECT role, suspended, password FROM users WHERE name = $1", plain(name)).Scan(&u.role, &suspended, &u.stored)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return u, false, err
	}
	against := u.stored
	if against == "" {
		against = c.opt.PasswordCost.Nobody()
	}
	typed := p.text
	if len(typed) > maxPassword {
		typed = ""
	}
	matches, cost, err := people.Matches(typed, against)
	if err != nil {
		return u, false, fmt.Errorf("user %.32q: %w", name, err)
	}
	right = matches && suspended == 0 && u.stored != ""
	if right && cost != c.opt.PasswordCost {
		u.anew = c.opt.PasswordCost.Hash(typed)
	}
	return u, right, nil
}

// Session tells who holds a token. The error is ErrNoSession, or the store's.
func (c *Central) Session(ctx context.Context, token string) (Session, error) {
	return c.session(ctx, token, func(Role) bool { return true })
}

// WatchSession is Session for what a page asks by itself, with nobody at it: it does not
// put off the end of an idle session, but for a viewer's, who can do nothing.
func (c *Central) WatchSession(ctx context.Context, token string) (Session, error) {
	return c.session(ctx, token, func(r Role) bool { return r == RoleViewer })
}

func (c *Central) session(ctx context.Context, token string, used func(Role) bool) (Session, error) {
	if len(token) != base64.RawURLEncoding.EncodedLen(tokenBytes) {
		return Session{}, ErrNoSession
	}
	sum := sha256.Sum256([]byte(token))
	var s Session
	var began, lastUsed string
	var suspended int
	err := c.store.reader().QueryRowContext(ctx, "SELECT s.name, s.began, s.used, u.role, u.suspended FROM sessions s JOIN users u ON u.name = s.name WHERE s.token = $1", sum[:]).
		Scan(&s.Name, &began, &lastUsed, &s.Role, &suspended)
	if errors.Is(err, sql.ErrNoRows) {
		return Session{}, ErrNoSession
	}
	if err != nil {
		return Session{}, err
	}
	from, err1 := wire.ParseTime(began)
	last, err2 := wire.ParseTime(lastUsed)
	if err := errors.Join(err1, err2); err != nil {
		return Session{}, fmt.Errorf("a session of %s: %w", s.Name, err)
	}
	now := c.opt.Now()
	s.Ends = from.Add(sessionLife)
	if suspended != 0 || !now.Before(s.Ends) || now.Sub(last) >= sessionIdle {
		return Session{}, ErrNoSession
	}
	if used(s.Role) && now.Sub(last) >= usedWithin {
		err = c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE sessions SET used = $1 WHERE token = $2", wire.FormatTime(now), sum[:])
			return err
		})
	}
	return s, err
}

// SignOut ends a session.
func (c *Central) SignOut(ctx context.Context, token string) error {
	sum := sha256.Sum256([]byte(token))
	return c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var name string
		err := tx.QueryRowContext(ctx, "DELETE FROM sessions WHERE token = $1 RETURNING name", sum[:]).Scan(&name)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		return c.auditLine(ctx, tx, "sign-out", name, "")
	})
}

// guesses bounds how fast passwords are tried, by name and by address, in this process.
type guesses struct {
	gate chan struct{}
	mu   sync.Mutex
	of   map[guessed]tries
}

// guessed is whom tries are counted of; one field is set.
type guessed struct {
	name string
	from netip.Prefix
}

type tries struct {
	wrong int
	next  time.Time // no try before
}

// What is free and what the longest delay is. Delays double from a second. The one by name
// stays short: a stranger can begin it, and it keeps the user himself out.
const (
	freeByName     = 3
	freeByAddress  = 10
	longestByName  = time.Minute
	longestByHost  = 15 * time.Minute
	mostGuessed    = 10_000
	forgottenAfter = time.Hour
)

func newGuesses() *guesses {
	return &guesses{gate: make(chan struct{}, guessesAtOnce), of: map[guessed]tries{}}
}

// network is what one party has of addresses: a whole /64 of IPv6.
func network(from netip.Addr) netip.Prefix {
	from = from.Unmap().WithZone("")
	bits := 64
	if from.Is4() {
		bits = 32
	}
	p, _ := from.Prefix(bits) // of no address there is none: a command on this machine
	return p
}

// begin counts a try before it is looked at, so that many at once are no more than one
// after the other. The error is *WaitError, which counts nothing.
func (g *guesses) begin(name string, from netip.Addr, now time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.of) >= mostGuessed {
		g.forget(now)
	}
	byName, byHost := guessed{name: name}, guessed{from: network(from)}
	a, b := g.of[byName], g.of[byHost]
	if wait := max(a.next.Sub(now), b.next.Sub(now)); wait > 0 {
		return &WaitError{wait}
	}
	g.of[byName] = a.again(freeByName, longestByName, now)
	if byHost.from.IsValid() {
		g.of[byHost] = b.again(freeByAddress, longestByHost, now)
	}
	return nil
}

func (t tries) again(free int, longest time.Duration, now time.Time) tries {
	if now.Sub(t.next) > forgottenAfter {
		t.wrong = 0
	}
	t.wrong++
	t.next = now
	if over := t.wrong - free; over >= 0 {
		t.next = now.Add(min(time.Second<<min(over, 20), longest))
	}
	return t
}

// forgive takes back what begin counted, after a right password. Earlier tries from the
// address stay: whoever has one account must not guess at others for ever.
func (g *guesses) forgive(name string, from netip.Addr, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.of, guessed{name: name})
	byHost := guessed{from: network(from)}
	if t := g.of[byHost]; t.wrong > 0 {
		t.wrong--
		t.next = now
		g.of[byHost] = t
	}
}

// forget drops tries that no longer delay anything, or all where a flood of names filled
// the table: that flood waits by its addresses.
func (g *guesses) forget(now time.Time) {
	for who, t := range g.of {
		if now.Sub(t.next) > forgottenAfter || (who.name != "" && !t.next.After(now)) {
			delete(g.of, who)
		}
	}
	if len(g.of) >= mostGuessed {
		clear(g.of)
	}
}
