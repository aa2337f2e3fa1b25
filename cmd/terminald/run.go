package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"grattoir/cmd/internal/cli"
	"grattoir/cmd/internal/uptime"
	"grattoir/configs"
	"grattoir/device/control"
	"grattoir/device/printer"
	"grattoir/device/scanner"
	"grattoir/device/screen"
	"grattoir/device/terminal"
	"grattoir/sync/ledger"
	"grattoir/validate"
	"grattoir/validate/money"
)

// run is the daemon's life: open, recover, serve, stop in order.
func run(ctx context.Context, c configs.Terminal) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	zone, err := time.LoadLocation(c.TimeZone)
	if err != nil {
		return err
	}
	if err := makeFolders(c); err != nil {
		return err
	}

	paper, glass, profile, err := devices(c, log)
	if err != nil {
		return cli.Exit(cli.Usage, err)
	}

	believed, err := loadTrust(c)
	if err != nil {
		return cli.Exit(cli.Usage, err)
	}

	// The ledger first: its lock keeps a second daemon from the devices.
	var way *link
	trusted := func() time.Time {
		if way == nil {
			return time.Time{}
		}
		return way.trusted()
	}
	now := clock()
	book, err := openBook(ctx, c, believed, now, trusted, log)
	if err != nil {
		return err
	}
	defer func() { logError(log, "closing the ledger", book.Close()) }()
	audit := startAudit(ctx, book, log)
	defer audit.stop()
	blocks, err := newLibrary(c, believed, log)
	if err != nil {
		return err
	}
	defer blocks.close()
	blocks.now = trusted
	if err := blocks.rescan(ctx); err != nil {
		return err
	}

	var counter *terminal.Terminal
	if way, err = newLink(c, believed, book, blocks, func() []string { return faultCodes(counter) }, outside{}, log); err != nil {
		return err
	}
	rules, err := newLimits(c, believed, trusted, log)
	if err != nil {
		return err
	}
	team, err := openCrew(ctx, c, trusted, log)
	if err != nil {
		return err
	}
	defer func() { logError(log, "closing the operators' files", team.close()) }()
	stationery := printer.Stationery{Shop: printer.Shop{Name: c.Shop.Name, Address: c.Shop.Address}, Language: money.Language(c.Language), Zone: zone,
		Sign: slipSigner(c, believed.identity, log)}
	desk := terminal.Options{Name: c.Name, Shelf: blocks.shelf, Ledger: journal{book, team.shut}, Currency: c.Policy.Currency,
		Printer: printer.Desk{Device: paper, Stationery: stationery, Log: log}, Central: way.central(), Policy: rules.inForce, Limits: rules.fault,
		AcceptScaled: c.AcceptScaled, Operator: c.Operator, Now: now, Trusted: trusted, Log: log, LedgerFault: ledgerFault,
		Clock: newClockWatch(now, uptime.Since, trusted, signedFloor(ctx, book)).fault, Step: crashStep()}
	team.join(&desk)
	counter = terminal.New(desk)

	// What the last run left is settled before the first scan is accepted.
	cut, err := counter.Recover(ctx)
	if err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	if cut > 0 {
		paper.Torn() // what was cut off may still lie in the printer, without its cut
	}

	render := func(w io.Writer, r validate.Receipt) error { return stationery.PNG(w, r, profile) }
	page, err := screen.New(screen.Options{Terminal: counter, Name: c.Name, Shop: c.Shop.Name, Languages: languages(c.Language), Zone: zone, Currency: c.Policy.Currency,
		Render: render, Demonstration: c.AcceptScaled, StandAlone: c.StandAlone, DataDate: blocks.date, Trusted: trusted, Log: log})
	if err != nil {
		return err
	}
	audit.wait(auditGrace)
	return serve(ctx, c, log, counter, page, paper, glass, book, blocks, rules, way, team, now, render)
}

// serve runs everything until ctx ends, then stops in order: no more scans, no more
// acts, the slip in hand, the printer; the caller closes the ledger last.
func serve(ctx context.Context, c configs.Terminal, log *slog.Logger, counter *terminal.Terminal, page *screen.Screen,
	paper *printer.Device, glass *scanner.Scanner, book *ledger.Ledger, blocks *library, rules *limits, way *link, team *crew, now func() time.Time, render func(io.Writer, validate.Receipt) error) error {
	web, err := net.Listen("tcp", c.Screen.Listen)
	if err != nil {
		return cli.Exit(cli.Usage, fmt.Errorf("screen.listen: %w (another program, perhaps another terminald, has the address: stop it, or change it in the configuration)", err))
	}
	socket, err := control.Listen(c.Socket)
	if err != nil {
		return errors.Join(err, web.Close())
	}
	program := version()
	status := func() control.Status {
		head := book.Head()
		version, known := rules.status()
		return control.Status{Terminal: c.Name, Shop: c.Shop.Name, Program: program, Policy: version, Limits: known, StandAlone: c.StandAlone,
			Head: validate.EntryNumber{Epoch: head.Epoch, Seq: head.Seq}.String(), HeadHash: head.Hash.String(),
			Page: "http://" + web.Addr().String() + "/", Blocks: blocks.list(), Damaged: blocks.damaged(), Now: now(), Trusted: way.trusted(), Link: way.status()}
	}
	servers := []*http.Server{
		{Handler: page.Handler(), ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10},
		{Handler: control.Handler(control.Options{Terminal: counter, Language: money.Language(c.Language), Status: status,
			Rescan: func() error { return errors.Join(blocks.rescan(ctx), rules.rescan()) }, Render: render}), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10},
	}

	scans, stopScans := context.WithCancel(ctx)
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx)) // outlives ctx for the slip in hand
	var scanning, working sync.WaitGroup
	failed := make(chan error, 8)
	start := func(group *sync.WaitGroup, name string, f func() error) {
		group.Go(func() {
			if err := f(); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, context.Canceled) {
				failed <- fmt.Errorf("%s: %w", name, err)
			}
		})
	}
	counter.ScannerFault(&terminal.Fault{Code: "S0", ClerkFR: "Lecteur : connexion en cours.", ClerkEN: "Scanner: connecting.",
		Technician: "the scanner's port is being opened for the first time"})
	start(&working, "printer", func() error { return paper.Run(work) })
	start(&working, "slips", func() error { counter.Run(work); return nil })
	start(&scanning, "link", func() error {
		awaitDevices(scans, counter) // so that the first hello does not report devices that are just connecting
		return way.run(scans)
	})
	start(&working, "pages", func() error { return servers[0].Serve(web) })
	start(&working, "socket", func() error { return servers[1].Serve(socket) })
	start(&scanning, "operators", func() error { return team.run(scans) })
	start(&scanning, "sign-on", func() error { counter.Watch(scans); return nil })
	start(&scanning, "scanner", func() error {
		return glass.Run(scans, func(s scanner.Scan) {
			counter.Check(scans, terminal.Scan{Text: s.Text, AIM: aimLetter(s.AIM), Entered: validate.Scanned})
		}, func(s scanner.State) { counter.ScannerFault(scannerFault(s)) })
	})
	log.Info("ready", "terminal", c.Name, "page", "http://"+web.Addr().String()+"/", "socket", c.Socket, "blocks", len(blocks.list()))

	select {
	case <-ctx.Done():
		err = nil
	case err = <-failed:
	}
	if err != nil {
		log.Error("stopping: a part has failed", "err", err)
	} else {
		log.Info("stopping")
	}
	stopScans()
	scanning.Wait()
	page.Close() // its open streams would outlive their listener
	for _, s := range servers {
		// An act in flight gets its answer; a client that only waits is cut off.
		soon, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		if err := s.Shutdown(soon); err != nil {
			logError(log, "stopping a listener", s.Close())
		}
		cancel()
	}
	counter.Drain(work)
	stopWork()
	working.Wait()
	return err
}

// languages of the page, the configured one first.
func languages(first string) []money.Language {
	if first == string(money.English) {
		return []money.Language{money.English, money.French}
	}
	return []money.Language{money.French, money.English}
}

// devices are made from the configuration; they connect when they are run, and any of
// them may be missing then.
func devices(c configs.Terminal, log *slog.Logger) (*printer.Device, *scanner.Scanner, printer.Profile, error) {
	profile, err := printer.ProfileNamed(c.Printer.Profile)
	if err != nil {
		return nil, nil, profile, fmt.Errorf("printer.profile: %w", err)
	}
	paper := printer.Config{Path: c.Printer.Path, Baud: c.Printer.Baud, Flow: printer.Flow(c.Printer.Flow), Profile: profile}
	glass := scanner.Config{Path: c.Scanner.Path, Baud: c.Scanner.Baud, Parity: c.Scanner.Parity, DataBits: c.Scanner.DataBits}
	if err := errors.Join(paper.Validate(), glass.Validate()); err != nil {
		return nil, nil, profile, err
	}
	return printer.New(paper, log), scanner.New(glass, log), profile, nil
}

func makeFolders(c configs.Terminal) error {
	for _, dir := range []string{c.Data, c.Manifests()} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return cli.Exit(cli.Usage, fmt.Errorf("data: %w (it must be this user's to write)", err))
		}
	}
	return nil
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
	text, err := os.ReadFile(path)
	if err != nil {
		return ledger.ClaimKey{}, fmt.Errorf("claim_key: %w", err)
	}
	key, err := ledger.ParseClaimKey(string(text))
	if err != nil {
		return ledger.ClaimKey{}, fmt.Errorf("claim_key %s: %w", path, err)
	}
	return key, nil
}

// aimLetter is the letter of an AIM identifier as "]d1".
func aimLetter(aim string) byte {
	if len(aim) < 2 {
		return 0
	}
	return aim[1]
}

func scannerFault(s scanner.State) *terminal.Fault {
	if s.Fault == nil {
		return nil
	}
	return &terminal.Fault{Code: s.Fault.Code, ClerkFR: s.Fault.ClerkFR, ClerkEN: s.Fault.ClerkEN, Technician: s.Fault.Technician}
}

// devicesConnect is how long the link waits for the devices at most.
const devicesConnect = 3 * time.Second

// awaitDevices waits until scanner and printer work, for a short time.
func awaitDevices(ctx context.Context, counter *terminal.Terminal) {
	ctx, cancel := context.WithTimeout(ctx, devicesConnect)
	defer cancel()
	for {
		state, changed := counter.State()
		if state.Scanner == nil && state.Printer == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// faultCodes are the codes of what does not work, for central's reports.
func faultCodes(counter *terminal.Terminal) []string {
	state, _ := counter.State()
	codes := []string{}
	for _, f := range []*terminal.Fault{state.Scanner, state.Printer, state.Ledger, state.Clock, state.Limits} {
		if f != nil {
			codes = append(codes, f.Code)
		}
	}
	return codes
}

func logError(log *slog.Logger, what string, err error) {
	if err != nil {
		log.Error(what, "err", err)
	}
}

// version is what the build stamped.
func version() string { return "grattoir " + buildVersion }

// buildVersion is set by the linker (-X main.buildVersion=...).
var buildVersion = "dev"
