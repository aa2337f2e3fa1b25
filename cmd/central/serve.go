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
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/configs"
	"grattoir/sync/central"
)

// drain is how long requests under way may take after SIGTERM.
const drain = 10 * time.Second

// serving is what central serve is told, by file or flags.
type serving struct {
	Data      string   `toml:"data"`     // folder of keys and blocks, and of central.db
	Database  string   `toml:"database"` // SQLite file or postgres:// URL; "" is the one noted in the folder, or central.db there
	Listen    string   `toml:"listen"`   // of the terminals' API, host:port
	Console   string   `toml:"console"`  // of the dashboard, host:port, loopback only
	Names     []string `toml:"names"`    // hosts and addresses of the server's certificate
	Allowance struct {
		Claims int64 `toml:"claims"`
		Money  int64 `toml:"money_minor"`
	} `toml:"allowance"` // what a terminal may pay above its acknowledged journal; 0 is no bound
	// BookedRiskMinor is up to which amount a payment of a silent owner's pack is credited
	// that a terminal made at a booked risk; the signed policy says whether terminals do.
	BookedRiskMinor int64 `toml:"booked_risk_minor"`
	Identities      struct {
		KeepDays int `toml:"keep_days"` // an identity is erased so long after it arrived (code monétaire et financier, L561-12: five years)
	} `toml:"identities"`
	Settlement settlement `toml:"settlement"` // when active packs settle by themselves
	// Sales says whether a block's packs are put on sale no more once its last top prize is
	// paid, in every game and in single ones.
	Sales struct {
		EndAfterTopPrize bool            `toml:"end_after_top_prize"`
		Games            map[string]bool `toml:"games"` // by game id, in its place
	} `toml:"sales"`
}

// settlement is when an active pack settles by itself, of every game and of single ones.
// A figure that is 0 is no rule.
type settlement struct {
	settleRule
	Games map[string]settleRule `toml:"games"` // by game id, in the place of the others
}

type settleRule struct {
	Percent  int   `toml:"percent"`         // of its low prizes paid, of those that a pack holds on average
	LowMinor int64 `toml:"low_prize_minor"` // prizes of at most so much are low; 0 is every prize
	Days     int   `toml:"days"`            // since it was put on sale
}

func (s settlement) rules() central.SettleRules {
	r := central.SettleRules{Every: central.SettleRule(s.settleRule), Games: map[string]central.SettleRule{}}
	for game, rule := range s.Games {
		r.Games[game] = central.SettleRule(rule)
	}
	return r
}

func defaultServing() serving {
	s := serving{Data: "central-data", Listen: "127.0.0.1:8443", Console: "127.0.0.1:8088"}
	s.Identities.KeepDays = 1827
	s.BookedRiskMinor = 2000 // as the shipped example of a policy has it
	return s
}

func serveCommand() *cobra.Command {
	var path string
	var asJSON bool
	s, flags := defaultServing(), serving{}
	cmd := &cobra.Command{
		Use:   "serve [--config FILE]",
		Short: "Serve the terminals, and the console for operations",
		Long: `Serve the terminals over HTTPS. With no configuration everything lies in
./central-data: the first start makes the CA, the server's certificate and the keys
there. The tables lie in central.db there, or in the PostgreSQL that --database names at
the first start; RUNNING.md beside sync/central has the rest. SIGTERM ends the long polls, finishes the requests under way and closes the
database; nothing that was acknowledged is ever lost.`,
		Example: `  central serve
  central serve --data /srv/central --listen 0.0.0.0:8443 --name central.example.org
  central serve --data /srv/central --database 'postgres://central@/grattoir?host=/run/postgresql'
  central serve --config /etc/grattoir/central.toml`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if path != "" {
				if err := loadServing(path, &s); err != nil {
					return cli.Exit(cli.Usage, err)
				}
			}
			s.override(cmd, flags)
			if err := s.check(); err != nil {
				return err
			}
			return serve(cmd.Context(), s, asJSON, cmd.OutOrStdout())
		},
	}
	d := defaultServing()
	cmd.Flags().StringVar(&path, "config", "", "configuration `file`; flags win over it")
	cmd.Flags().StringVar(&flags.Data, "data", d.Data, "`folder` of keys, blocks and database")
	cmd.Flags().StringVar(&flags.Database, "database", "", "SQLite `file` or postgres://user@host/name of a new folder's tables; noted there")
	cmd.Flags().StringVar(&flags.Listen, "listen", d.Listen, "`host:port` of the terminals' API")
	cmd.Flags().StringVar(&flags.Console, "console", d.Console, "`host:port` of the dashboard, loopback only")
	cmd.Flags().StringArrayVar(&flags.Names, "name", nil, "`host` or address that terminals reach it by, for its certificate; may be repeated")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the addresses as one JSON object")
	return cmd
}

func loadServing(path string, s *serving) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := configs.Decode(path, text, s); err != nil {
		return err
	}
	if !filepath.IsAbs(s.Data) {
		s.Data = filepath.Join(filepath.Dir(path), s.Data)
	}
	if s.Database != "" && !strings.Contains(s.Database, "://") && !filepath.IsAbs(s.Database) {
		s.Database = filepath.Join(filepath.Dir(path), s.Database)
	}
	return nil
}

func (s *serving) override(cmd *cobra.Command, flags serving) {
	for name, f := range map[string]struct{ from, to *string }{
		"data": {&flags.Data, &s.Data}, "database": {&flags.Database, &s.Database}, "listen": {&flags.Listen, &s.Listen}, "console": {&flags.Console, &s.Console},
	} {
		if cmd.Flags().Changed(name) {
			*f.to = *f.from
		}
	}
	if cmd.Flags().Changed("name") {
		s.Names = flags.Names
	}
}

func (s *serving) check() error {
	if s.Allowance.Claims < 0 || s.Allowance.Money < 0 {
		return cli.Usagef("allowance: %d claims and %d minor units: want 0, for no bound, or more", s.Allowance.Claims, s.Allowance.Money)
	}
	if err := checkKeepDays(s.Identities.KeepDays); err != nil {
		return err
	}
	if err := s.Settlement.rules().Check(); err != nil {
		return cli.Usagef("%w", err)
	}
	host, _, err := net.SplitHostPort(s.Console)
	if err != nil {
		return cli.Usagef("--console %.60q: want host:port, like 127.0.0.1:8088", s.Console)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return cli.Usagef("--console %.60q: the dashboard is served on loopback only, like 127.0.0.1:8088", s.Console)
	}
	return nil
}

// listening is where it serves.
type listening struct {
	API     string `json:"api"`
	Console string `json:"console"`
	Data    string `json:"data"`
}

// serve runs until ctx ends: listeners first, so that what is printed is true; then the
// order of the end is listeners, long polls, requests under way, database.
func serve(ctx context.Context, s serving, asJSON bool, out io.Writer) (err error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	c, err := central.Open(ctx, central.Options{Dir: s.Data, Database: s.Database, Hosts: s.Names, Log: log,
		AllowanceClaims: s.Allowance.Claims, AllowanceMinor: s.Allowance.Money, BookedRiskMinor: s.BookedRiskMinor,
		Sales: central.SalesRule{Every: s.Sales.EndAfterTopPrize, Games: s.Sales.Games}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	chores, stopChores := context.WithCancel(ctx)
	var atChores sync.WaitGroup
	atChores.Go(func() {
		eraseDaily(chores, c, s, func(err error) { log.Error("identities are not erased", "err", err) }, func(n int) { log.Info("identities erased", "records", n) })
	})
	atChores.Go(func() {
		settlePacks(chores, c, s.Settlement.rules(), func(err error) { log.Error("packs are not settled", "err", err) })
	})
	defer atChores.Wait() // before the database is closed
	defer stopChores()
	api := newServer(c.API(), log)
	api.TLSConfig = c.TLSConfig()
	api.RegisterOnShutdown(c.EndPolls)
	ln, err := net.Listen("tcp", s.Listen)
	if err != nil {
		return fmt.Errorf("%w: name another address with --listen", err)
	}
	pageLn, err := net.Listen("tcp", s.Console)
	if err != nil {
		return errors.Join(fmt.Errorf("%w: name another address with --console", err), ln.Close())
	}
	where := listening{API: "https://" + ln.Addr().String(), Console: "http://" + pageLn.Addr().String(), Data: s.Data}
	pages := newServer(consoleHandler(c, false), log)
	ended := make(chan error, 2)
	go func() { ended <- pages.Serve(pageLn) }()
	go func() { ended <- api.ServeTLS(ln, "", "") }()
	servers := []*http.Server{api, pages}
	if err := where.print(out, asJSON); err != nil {
		return errors.Join(err, shutdown(servers))
	}
	select {
	case <-ctx.Done():
		log.Info("stopping")
	case err = <-ended:
		err = fmt.Errorf("serving ended by itself: %w", err)
	}
	return errors.Join(err, shutdown(servers))
}

// settleEvery is how often packs with new claims are looked at; all are once a day.
const settleEvery = time.Minute

// settlePacks settles the packs that are due, until ctx ends.
func settlePacks(ctx context.Context, c *central.Central, rules central.SettleRules, fail func(error)) {
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		all := time.Duration(n)*settleEvery%(24*time.Hour) == 0 // the first look too
		if _, err := c.SettleDue(ctx, rules, all); err != nil && ctx.Err() == nil {
			fail(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// newServer bounds what a client may hold: a long poll takes under a minute, a block over
// a slow line a quarter of an hour, and what was cut goes on where it ended. A handshake
// and a header get two minutes: over a modem of 1 200 baud they take most of one. HTTP/1.1
// does all that the link needs.
func newServer(h http.Handler, log *slog.Logger) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{Handler: h, Protocols: protocols, ReadHeaderTimeout: 2 * time.Minute, ReadTimeout: 5 * time.Minute, WriteTimeout: 15 * time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
}

// shutdown lets requests under way finish, and cuts those that take too long.
func shutdown(servers []*http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	var errs []error
	for _, s := range servers {
		if err := s.Shutdown(ctx); err != nil {
			errs = append(errs, fmt.Errorf("requests were cut after %v: %w", drain, err), s.Close())
		}
	}
	return errors.Join(errs...)
}

func (l listening) print(out io.Writer, asJSON bool) error {
	if asJSON {
		return cli.JSON(out, l)
	}
	_, err := fmt.Fprintf(out, "terminals: %s\nconsole:   %s\ndata:      %s\n", l.API, l.Console, l.Data)
	return err
}
