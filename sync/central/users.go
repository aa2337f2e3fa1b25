package central

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"grattoir/sync/ledger/people"
	"grattoir/sync/wire"
)

// Users are the persons who use the console. They are made on central's machine, by
// whoever may read its folder; each change of one is a line of the audit, and ends the
// sessions of that user.

// Role is what a user of the console is for. Everybody sees the reports; the roles differ in
// the rest, and nobody has two.
type Role string

const (
	RoleViewer   Role = "viewer"   // sees and exports reports
	RoleOperator Role = "operator" // also acts: packs, messages, policies, conflicts
	RoleSecurity Role = "security" // also asks and agrees to look at winners' identities
	RoleAuditor  Role = "auditor"  // also reads the audit, and acts on nothing
)

// Roles are all of them.
func Roles() []Role { return []Role{RoleViewer, RoleOperator, RoleSecurity, RoleAuditor} }

// ParseRole reads a role. The error is ErrRefused.
func ParseRole(text string) (Role, error) {
	for _, r := range Roles() {
		if string(r) == text {
			return r, nil
		}
	}
	return "", fmt.Errorf("role %.20q: %w: want viewer, operator, security or auditor", text, ErrRefused)
}

const (
	minPassword = 12  // characters
	maxPassword = 256 // bytes
	maxUser     = 32  // bytes of a name
)

// Password is what a user types. However it is printed, it shows nothing of itself.
type Password struct{ text string }

// Format writes "Password(hidden)" for every verb.
func (Password) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte("Password(hidden)")) }

// TypedPassword is a password as somebody typed it to sign in. What cannot be one is none
// of anybody's.
func TypedPassword(text string) Password { return Password{text} }

// NewPassword takes a password that a user shall have: 12 characters or more, at most 256
// bytes, not a few characters repeated. The error is ErrRefused and shows nothing of it.
func NewPassword(text string) (Password, error) {
	n := utf8.RuneCountInString(text)
	distinct := map[rune]bool{}
	for _, r := range text {
		distinct[r] = true
	}
	switch {
	case !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\r\n"):
		return Password{}, fmt.Errorf("password: %w: want one line of text", ErrRefused)
	case n < minPassword || len(text) > maxPassword:
		return Password{}, fmt.Errorf("password of %d characters: %w: want %d or more, and at most %d bytes; a few words are easy to remember", n, ErrRefused, minPassword, maxPassword)
	case len(distinct) < 5:
		return Password{}, fmt.Errorf("password: %w: it repeats a few characters", ErrRefused)
	}
	return Password{text}, nil
}

// shippedCost is that of passwords: the setting which RFC 9106 recommends second, for
// machines with no 2 GiB to spare, on one lane of a server that has other work. 64 MiB and a few
// tenths of a second for each guess at a stolen table.
func shippedCost() people.Cost { return people.Cost{Memory: 64 << 10, Passes: 3, Threads: 1} }

// User is a person who may use the console.
type User struct {
	Name      string    `json:"name"` // 1 to 32 of a-z, 0-9, "-" and "."
	Role      Role      `json:"role"`
	Suspended bool      `json:"suspended"`
	Added     time.Time `json:"added"`
}

func checkUser(name string) error {
	if name == "" || len(name) > maxUser || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" || name[0] == '-' || name == "system" {
		return fmt.Errorf("user's name of %d bytes: %w: want 1 to %d of a-z, 0-9, \"-\" and \".\", as claire or j.morin, and not system", len(name), ErrRefused, maxUser)
	}
	return nil
}

// AddUser makes a user. By is who does it, for the audit. The errors include ErrRefused.
func (c *Central) AddUser(ctx context.Context, by, name string, role Role, p Password) error {
	if _, err := ParseRole(string(role)); err != nil {
		return err
	}
	if err := checkUser(name); err != nil {
		return err
	}
	hash := c.opt.PasswordCost.Hash(p.text)
	return c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		done, err := tx.ExecContext(ctx, "INSERT INTO users(name, role, password, added) VALUES($1, $2, $3, $4) ON CONFLICT(name) DO NOTHING", name, role, hash, c.now())
		if errors.Is(once(done, err), errAgain) {
			return fmt.Errorf("user %s: %w: there is one already", name, ErrRefused)
		}
		if err != nil {
			return err
		}
		return c.auditLine(ctx, tx, "user-add", by, name+", "+string(role))
	})
}

// SetRole gives a user another role. The errors include ErrNotFound and ErrRefused.
func (c *Central) SetRole(ctx context.Context, by, name string, role Role) error {
	if _, err := ParseRole(string(role)); err != nil {
		return err
	}
	return c.changeUser(ctx, by, name, "user-role", string(role), "UPDATE users SET role = $1 WHERE name = $2", role)
}

// SetPassword gives a user another password. The errors include ErrNotFound.
func (c *Central) SetPassword(ctx context.Context, by, name string, p Password) error {
	return c.changeUser(ctx, by, name, "user-password", "", "UPDATE users SET password = $1 WHERE name = $2", c.opt.PasswordCost.Hash(p.text))
}

// SuspendUser lets a user sign in no more. The errors include ErrNotFound.
func (c *Central) SuspendUser(ctx context.Context, by, name string) error {
	return c.changeUser(ctx, by, name, "user-suspend", "", "UPDATE users SET suspended = $1 WHERE name = $2", 1)
}

// ResumeUser ends a suspension. The errors include ErrNotFound.
func (c *Central) ResumeUser(ctx context.Context, by, name string) error {
	return c.changeUser(ctx, by, name, "user-resume", "", "UPDATE users SET suspended = $1 WHERE name = $2", 0)
}

// changeUser changes one column of a user, ends his sessions and says so in the audit.
func (c *Central) changeUser(ctx context.Context, by, name, act, about, update string, value any) error {
	if checkUser(name) != nil {
		return fmt.Errorf("user %.32q: %w: central user list shows them", name, ErrNotFound)
	}
	return c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		done, err := tx.ExecContext(ctx, update, value, name)
		if errors.Is(once(done, err), errAgain) {
			return fmt.Errorf("user %s: %w: central user list shows them", name, ErrNotFound)
		}
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM sessions WHERE name = $1", name); err != nil {
			return err
		}
		return c.auditLine(ctx, tx, act, by, strings.TrimSuffix(name+", "+about, ", "))
	})
}

// Users lists all, by name.
func (c *Central) Users(ctx context.Context) ([]User, error) {
	list := []User{}
	err := eachRow(ctx, c.store.reader(), "SELECT name, role, suspended, added FROM users ORDER BY name", func(row scanner) error {
		var u User
		var suspended int
		var added string
		err := row.Scan(&u.Name, &u.Role, &suspended, &added)
		if err == nil {
			u.Added, err = wire.ParseTime(added)
		}
		if err != nil {
			return fmt.Errorf("user %s: %w", u.Name, err)
		}
		u.Suspended = suspended != 0
		list = append(list, u)
		return nil
	})
	return list, err
}

// HasUsers tells whether there is a user at all.
func (c *Central) HasUsers(ctx context.Context) (bool, error) {
	var n int
	err := c.store.reader().QueryRowContext(ctx, "SELECT count(*) FROM users").Scan(&n)
	return n > 0, err
}
