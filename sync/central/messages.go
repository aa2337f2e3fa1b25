package central

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"grattoir/sync/wire"
	"grattoir/validate/policy"
)

// Message is what operations say to the people at counters: at one terminal, at those of
// a region, or at all where neither is named.
type Message struct {
	Number    int64     `json:"number"`
	Terminal  string    `json:"terminal"`
	Region    string    `json:"region"`
	Mandatory bool      `json:"mandatory"` // nothing is paid until somebody has read it
	From      string    `json:"from"`      // first day in Paris, as 2026-12-01; "" when it is sent is today
	Until     string    `json:"until"`     // last day, "" for no end
	French    string    `json:"fr"`
	English   string    `json:"en"`
	Operator  string    `json:"operator"`
	Sent      time.Time `json:"sent"`
	Withdrawn time.Time `json:"withdrawn,omitzero"`
	Readers   int       `json:"readers"` // terminals at which it was read
}

// Send says a message. A region's message goes to the terminals that stand there, and to those that
// come there while it is valid (SetRegion). The
// errors include ErrRefused, and ErrNotFound where it would reach nobody.
func (c *Central) Send(ctx context.Context, m Message) (Message, error) {
	fail := func(err error) (Message, error) { return Message{}, fmt.Errorf("send the message: %w", err) }
	now := c.opt.Now()
	if m.From == "" {
		m.From = policy.DayInParis(now).String()
	}
	if err := m.check(policy.DayInParis(now)); err != nil {
		return fail(err)
	}
	m.Sent = now.UTC().Truncate(time.Millisecond)
	var newest int64
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		audience, err := m.audience(ctx, tx)
		if err != nil {
			return err
		}
		newest, err = m.out(ctx, tx, audience)
		return err
	})
	if err != nil {
		return fail(err)
	}
	c.feed.added(newest)
	c.opt.Log.Info("message sent", "number", m.Number, "terminal", m.Terminal, "region", m.Region, "mandatory", m.Mandatory, "operator", m.Operator)
	return m, nil
}

// out numbers and keeps a message that was checked, and tells it.
func (m *Message) out(ctx context.Context, tx *sql.Tx, audience []string) (newest int64, err error) {
	if m.Number, err = take(ctx, tx, messagesSent); err != nil {
		return 0, err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO messages(number, region, terminal, mandatory, valid_from, valid_to, fr, en, operator, sent) VALUES($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
		m.Number, m.Region, m.Terminal, asNumber(m.Mandatory), m.From, m.Until, m.French, m.English, m.Operator, wire.FormatTime(m.Sent)); err != nil {
		return 0, err
	}
	return m.tell(ctx, tx, audience, wire.FormatTime(m.Sent))
}

// asNumber is a yes or no as tables have it.
func asNumber(on bool) int {
	if on {
		return 1
	}
	return 0
}

// check bounds a message.
func (m Message) check(today policy.Date) error {
	if m.Operator == "" || len(m.Operator) > 64 {
		return because(BecauseOperatorMissing, fmt.Errorf("%w: a message needs the name of its operator, at most 64 bytes", ErrRefused))
	}
	if m.Terminal != "" && m.Region != "" {
		return because(BecauseAudienceTwice, fmt.Errorf("%w: it goes to one terminal, to a region, or to all", ErrRefused))
	}
	for _, text := range []string{m.French, m.English} {
		if strings.TrimSpace(text) == "" || len(text) > wire.MaxWords || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return because(BecauseMessageBounds, fmt.Errorf("%w: a message has 1 to %d printable bytes in French and in English", ErrRefused, wire.MaxWords), wire.MaxWords)
		}
	}
	from, err := policy.ParseDate(m.From)
	if err != nil {
		return because(BecauseFirstDay, fmt.Errorf("%w: first day: %w", ErrRefused, err), err)
	}
	if m.Until == "" {
		return nil
	}
	until, err := policy.ParseDate(m.Until)
	switch {
	case err != nil:
		return because(BecauseLastDay, fmt.Errorf("%w: last day: %w", ErrRefused, err), err)
	case until.Before(from) || until.Before(today):
		return because(BecauseMessageOver, fmt.Errorf("%w: its last day %s is over before it can be read", ErrRefused, until), until)
	}
	return nil
}

// audience is whose feeds a message goes to.
func (m Message) audience(ctx context.Context, tx *sql.Tx) ([]string, error) {
	if m.Terminal == "" && m.Region == "" {
		return []string{everyone}, nil
	}
	rows, err := tx.QueryContext(ctx, "SELECT name FROM terminals WHERE name = $1 OR $2 <> '' AND region = $3 ORDER BY name", m.Terminal, m.Region, m.Region)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		list = append(list, name)
	}
	if err := rows.Err(); err != nil || len(list) > 0 {
		return list, err
	}
	return nil, because(BecauseNobodyMeant, fmt.Errorf("%w: no terminal is meant (central terminal list shows names and regions)", ErrNotFound))
}

func (m Message) tell(ctx context.Context, tx *sql.Tx, audience []string, now string) (newest int64, err error) {
	item := wire.MessageItem{Number: m.Number, Mandatory: m.Mandatory, From: m.From, Until: m.Until, French: m.French, English: m.English, Withdrawn: !m.Withdrawn.IsZero()}
	for _, name := range audience {
		if newest, err = addFeed(ctx, tx, name, now, wire.FeedItem{Kind: wire.FeedMessage, Message: &item}); err != nil {
			return 0, err
		}
	}
	return newest, nil
}

// tellArrived gives a terminal the messages of the region that it has come to, as far as
// they are out and their last day is not over. What it has read before stays read.
func (c *Central) tellArrived(ctx context.Context, tx *sql.Tx, name, region string) (newest int64, err error) {
	if region == "" {
		return 0, nil
	}
	var list []Message
	err = eachRow(ctx, tx, `SELECT number, mandatory, valid_from, valid_to, fr, en FROM messages WHERE region = $1 AND withdrawn = '' AND (valid_to = '' OR valid_to >= $2) ORDER BY number`, func(row scanner) error {
		var m Message
		var mandatory int
		err := row.Scan(&m.Number, &mandatory, &m.From, &m.Until, &m.French, &m.English)
		m.Mandatory = mandatory == 1
		list = append(list, m)
		return err
	}, region, policy.DayInParis(c.opt.Now()).String())
	for _, m := range list {
		if err == nil {
			newest, err = m.tell(ctx, tx, []string{name}, c.now())
		}
	}
	return newest, err
}

// Withdraw takes a message back: it goes from every counter, read or not.
func (c *Central) Withdraw(ctx context.Context, number int64) error {
	var newest int64
	now := c.now()
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		m := Message{Number: number, Withdrawn: c.opt.Now()}
		err := tx.QueryRowContext(ctx, "UPDATE messages SET withdrawn = $1 WHERE number = $2 AND withdrawn = '' RETURNING terminal", now, number).Scan(&m.Terminal)
		if errors.Is(err, sql.ErrNoRows) {
			return because(BecauseMessageUnknown, fmt.Errorf("%w: no such message is out (central message list)", ErrNotFound))
		}
		if err != nil {
			return err
		}
		// One of a region is taken back everywhere: whoever stood there may stand elsewhere now.
		newest, err = m.tell(ctx, tx, []string{m.Terminal}, now)
		return err
	})
	if err != nil {
		return fmt.Errorf("withdraw message %d: %w", number, err)
	}
	c.feed.added(newest)
	c.opt.Log.Info("message withdrawn", "number", number)
	return nil
}

// Messages lists what was sent, the newest first: what is out, or all.
func (c *Central) Messages(ctx context.Context, all bool) ([]Message, error) {
	rows, err := c.store.reader().QueryContext(ctx, `SELECT m.number, m.terminal, m.region, m.mandatory, m.valid_from, m.valid_to, m.fr, m.en, m.operator, m.sent, m.withdrawn,
		(SELECT count(*) FROM message_readers AS r WHERE r.message = m.number) FROM messages AS m WHERE $1 OR m.withdrawn = '' AND (m.valid_to = '' OR m.valid_to >= $2) ORDER BY m.number DESC`,
		all, policy.DayInParis(c.opt.Now()).String())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []Message{}
	for rows.Next() {
		var m Message
		var mandatory int
		var sent, withdrawn string
		err := rows.Scan(&m.Number, &m.Terminal, &m.Region, &mandatory, &m.From, &m.Until, &m.French, &m.English, &m.Operator, &sent, &withdrawn, &m.Readers)
		m.Mandatory = mandatory == 1
		if err == nil {
			m.Sent, err = wire.ParseTime(sent)
		}
		if err == nil && withdrawn != "" {
			m.Withdrawn, err = wire.ParseTime(withdrawn)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, rows.Err()
}

// Reader is a terminal at which a message was read.
type Reader struct {
	Terminal string    `json:"terminal"`
	Operator string    `json:"operator"`
	Received time.Time `json:"received"` // when central heard of it
}

// MessageReaders lists where a message was read, by terminal.
func (c *Central) MessageReaders(ctx context.Context, number int64) ([]Reader, error) {
	rows, err := c.store.reader().QueryContext(ctx, "SELECT terminal, operator, received FROM message_readers WHERE message = $1 ORDER BY terminal", number)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []Reader{}
	for rows.Next() {
		var r Reader
		var received string
		err := rows.Scan(&r.Terminal, &r.Operator, &received)
		if err == nil {
			r.Received, err = wire.ParseTime(received)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

// messageRead keeps that a message was read at the terminal.
func (in *intake) messageRead(ctx context.Context, l line) error {
	b, err := l.entry.MessageRead()
	if err != nil {
		return err
	}
	_, err = in.tx.ExecContext(ctx, "INSERT INTO message_readers(message, terminal, operator, read_at, received) VALUES($1, $2, $3, $4, $5) ON CONFLICT(message, terminal) DO NOTHING",
		b.Message, in.who.name, plain(b.Operator), plain(l.entry.Time), in.now)
	return err
}
