package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/policy"
)

// keptMessages are the newest messages that stay here, read or not.
const keptMessages = 200

// MessageReadBody says that somebody at the counter has read a message of central's.
type MessageReadBody struct {
	Message  int64  `json:"message"` // central's number
	Operator string `json:"operator"`
}

// MessageRead reads the body of a message-read entry.
func (e Entry) MessageRead() (MessageReadBody, error) {
	return bodyOf[MessageReadBody](e, KindMessageRead)
}

// setMessage takes a message, or its withdrawal. What was read stays read.
func (w *writing) setMessage(ctx context.Context, m wire.MessageItem) error {
	if m.Number < 1 {
		return fmt.Errorf("%w: a message without its number", ErrFeed)
	}
	if m.Withdrawn {
		_, err := w.exec(ctx, "DELETE FROM messages WHERE number = ?", m.Number)
		return err
	}
	if err := checkMessage(m); err != nil {
		return fmt.Errorf("%w: message %d: %w", ErrFeed, m.Number, err)
	}
	if _, err := w.exec(ctx, `INSERT INTO messages(number, mandatory, valid_from, valid_to, fr, en) VALUES(?, ?, ?, ?, ?, ?)
		ON CONFLICT(number) DO UPDATE SET mandatory = excluded.mandatory, valid_from = excluded.valid_from, valid_to = excluded.valid_to, fr = excluded.fr, en = excluded.en`,
		m.Number, m.Mandatory, m.From, m.Until, m.French, m.English); err != nil {
		return err
	}
	_, err := w.exec(ctx, "DELETE FROM messages WHERE number <= (SELECT number FROM messages ORDER BY number DESC LIMIT 1 OFFSET ?)", keptMessages)
	return err
}

func checkMessage(m wire.MessageItem) error {
	if m.French == "" || m.English == "" || len(m.French) > wire.MaxWords || len(m.English) > wire.MaxWords {
		return fmt.Errorf("it has not 1 to %d bytes in each language", wire.MaxWords)
	}
	if _, err := policy.ParseDate(m.From); err != nil {
		return err
	}
	if m.Until == "" {
		return nil
	}
	_, err := policy.ParseDate(m.Until)
	return err
}

// Messages are those that central has said here, the newest first, whatever their days.
func (l *Ledger) Messages(ctx context.Context) ([]validate.Message, error) {
	rows, err := l.read.QueryContext(ctx, "SELECT number, mandatory, valid_from, valid_to, fr, en, read_at, reader FROM messages ORDER BY number DESC")
	if err != nil {
		return nil, fmt.Errorf("messages: %w", l.seen(err))
	}
	defer rows.Close()
	var list []validate.Message
	for rows.Next() {
		var m validate.Message
		var at string
		if err := rows.Scan(&m.Number, &m.Mandatory, &m.From, &m.Until, &m.French, &m.English, &at, &m.Reader); err != nil {
			return nil, fmt.Errorf("messages: %w", l.seen(err))
		}
		m.Read = at != ""
		if m.ReadAt, err = parseTime(at); err != nil {
			m.ReadAt = time.Time{} // a clock gone wild: it was read all the same
		}
		list = append(list, m)
	}
	return list, rows.Err()
}

// ReadMessage records that somebody has read a message, once. The error is ErrNotFound
// for a message that is not here, or was withdrawn.
func (l *Ledger) ReadMessage(ctx context.Context, number int64, operator string) error {
	if err := checkActor(operator); err != nil {
		return fmt.Errorf("message %d: %w", number, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.write(ctx, func(ctx context.Context, w *writing) error {
		var at string
		err := w.tx.QueryRowContext(ctx, "SELECT read_at FROM messages WHERE number = ?", number).Scan(&at)
		if errors.Is(err, sql.ErrNoRows) {
			return ErrNotFound
		}
		if err != nil || at != "" {
			return err
		}
		_, m, err := w.append(ctx, KindMessageRead, MessageReadBody{Message: number, Operator: operator})
		if err != nil {
			return err
		}
		at = timeText(m.Device)
		if at == "" {
			at = "-" // a clock gone wild
		}
		_, err = w.exec(ctx, "UPDATE messages SET read_at = ?, reader = ? WHERE number = ?", at, operator, number)
		return err
	})
	if err != nil {
		return fmt.Errorf("message %d: %w", number, err)
	}
	return nil
}
