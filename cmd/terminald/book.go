package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"grattoir/cmd/internal/cli"
	"grattoir/cmd/internal/uptime"
	"grattoir/configs"
	"grattoir/device/health"
	"grattoir/device/terminal"
	"grattoir/sync/ledger"
	"grattoir/sync/ledger/people"
	"grattoir/validate/money"
)

// openLedger opens the ledger.
func openLedger(ctx context.Context, c configs.Terminal, t trust, now, trusted func() time.Time) (*ledger.Ledger, error) {
	opt, err := ledgerOptions(c, t, now, trusted)
	if err != nil {
		return nil, err
	}
	return ledger.Open(ctx, opt)
}

// ledgerOptions are how this terminal opens its ledger.
func ledgerOptions(c configs.Terminal, t trust, now, trusted func() time.Time) (ledger.Options, error) {
	boot, err := uptime.Boot()
	if err != nil {
		return ledger.Options{}, err
	}
	moment := func() ledger.Moment {
		return ledger.Moment{Boot: boot, Mono: uptime.Since(), Device: now(), Trusted: trusted()}
	}
	zone, err := time.LoadLocation(c.TimeZone)
	if err != nil {
		return ledger.Options{}, err
	}
	var sign func([]byte) ([]byte, error) // a terminal alone has no key that anybody knows
	if !c.StandAlone {
		sign = t.identity.Sign
	}
	return ledger.Options{Path: c.Ledger(), Terminal: c.Name, Moment: moment, ClaimKey: t.claimKey, Sign: sign, Zone: zone,
		Allowance: ledger.Allowance{Claims: c.Allowance.Claims, Money: money.Amount(c.Allowance.Money)}, Reserve: c.ReserveMB << 20, AuditFirst: true}, nil
}

func readClaimKey(path string) (ledger.ClaimKey, error) {
	text, err := cli.ReadBounded(path, 4<<10)
	if err != nil {
		return ledger.ClaimKey{}, fmt.Errorf("claim_key: %w", err)
	}
	key, err := ledger.ParseClaimKey(string(text))
	if err != nil {
		return ledger.ClaimKey{}, fmt.Errorf("claim_key %s: %w", path, err)
	}
	return key, nil
}

// openBook opens the ledger, or what is left of it. A shop whose card fails must go on
// checking tickets and hear why nothing is paid; only a second program, or a whole ledger
// that is not this terminal's, ends the start. Audits are those whose ends it notes.
func openBook(ctx context.Context, c configs.Terminal, t trust, now, trusted func() time.Time, audits func(context.Context) []ledger.AuditHead, log *slog.Logger) (*ledger.Ledger, error) {
	opt, err := ledgerOptions(c, t, now, trusted)
	if err != nil {
		return nil, err
	}
	opt.Audits = audits
	book, err := ledger.Open(ctx, opt)
	if err == nil {
		if err = legible(ctx, book); err == nil {
			return book, nil
		}
		logError(log, "closing the ledger", book.Close())
	}
	if errors.Is(err, ledger.ErrLocked) || errors.Is(err, ledger.ErrNotOurs) || ctx.Err() != nil {
		return nil, err
	}
	log.Error("the ledger is opened for reading only: tickets are checked, nothing is paid", "code", ledgerFault(err).Code, "err", err)
	return ledger.Salvage(ctx, opt, err)
}

// legible is nil when what a start needs of a ledger can be read: slips that wait, lest
// one be printed as an original twice, and what central has said.
func legible(ctx context.Context, book *ledger.Ledger) error {
	_, err1 := book.Unprinted(ctx)
	_, err2 := book.SignedTime(ctx)
	_, err3 := book.Refused(ctx)
	if err := errors.Join(err1, err2, err3); err != nil {
		return fmt.Errorf("%w: %w", ledger.ErrDamaged, err)
	}
	return nil
}

// ledgerFault words why nothing is paid: the ledger, or the operators' file.
func ledgerFault(err error) *terminal.Fault {
	if s, is := errors.AsType[*shutFile](err); is {
		m := people.Explain(s)
		return &terminal.Fault{Code: m.Code, ClerkFR: m.ClerkFR, ClerkEN: m.ClerkEN, Technician: m.Technician + " (" + s.Error() + ")"}
	}
	return health.Ledger(health.Class(ledger.TroubleOf(err)), err)
}

// auditGrace is how long a start waits for the ledger's audit, so that a terminal with
// few entries is seen to be ready at once.
const auditGrace = 2 * time.Second

// audit is the look through the whole ledger after a start, beside everything else.
type audit struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	ended  chan struct{}
}

func startAudit(ctx context.Context, book *ledger.Ledger, log *slog.Logger) *audit {
	a := &audit{ended: make(chan struct{})}
	ctx, a.cancel = context.WithCancel(ctx)
	a.done.Go(func() {
		defer close(a.ended)
		began := time.Now()
		switch err := book.Audit(ctx); {
		case ctx.Err() != nil, errors.Is(err, ledger.ErrNotWritable): // stopped, or told at the start
		case err != nil:
			log.Error("the ledger's audit: nothing is paid", "code", ledgerFault(err).Code, "err", err)
		default:
			log.Info("the ledger's audit found every entry whole", "took", time.Since(began).Round(time.Millisecond))
		}
	})
	return a
}

// wait waits for its end, for a short time.
func (a *audit) wait(most time.Duration) {
	timeout := time.NewTimer(most)
	defer timeout.Stop()
	select {
	case <-a.ended:
	case <-timeout.C:
	}
}

// stop ends it before the ledger is closed.
func (a *audit) stop() error {
	a.cancel()
	a.done.Wait()
	return nil
}
