package main

import (
	"context"
	"crypto/tls"
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
	Data      string   `toml:"data"`         // folder of keys and blocks, and of central.db
	Database  string   `toml:"database"`     // SQLite file or postgres:// URL; "" is the one noted in the folder, or central.db there
	Listen    string   `toml:"listen"`       // of the terminals' API, host:port
	Console   string   `toml:"console"`      // of the console, host:port; with no certificate loopback only
	Cert      string   `toml:"console_cert"` // PEM files of the console's certificate, with those above it, and of its key
	Key       string   `toml:"console_key"`
	Metrics   string   `toml:"metrics"` // of /metrics, host:port, loopback only; "" is none
	Names     []string `toml:"names"`   // hosts and addresses of the server's certificate
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
  central serve --console 10.0.0.4:443 --console-cert console.pem --console-key console.key --metrics 127.0.0.1:9188
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
	cmd.Flags().StringVar(&flags.Console, "console", d.Console, "`host:port` of the console; other than loopback with --console-cert only")
	cmd.Flags().StringVar(&flags.Cert, "console-cert", "", "PEM `file` of the console's certificate, those above it behind it")
	cmd.Flags().StringVar(&flags.Key, "console-key", "", "PEM `file` of that certificate's private key")
	cmd.Flags().StringVar(&flags.Metrics, "metrics", "", "`host:port` of /metrics for Prometheus, loopback only; none without it")
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
	for _, file := range []*string{&s.Database, &s.Cert, &s.Key} {
		if *file != "" && !strings.Contains(*file, "://") && !filepath.IsAbs(*file) {
			*file = filepath.Join(filepath.Dir(path), *file)
		}
	}
	return nil
}

func (s *serving) override(cmd *cobra.Command, flags serving) {
	for name, f := range map[string]struct{ from, to *string }{
		"data": {&flags.Data, &s.Data}, "database": {&flags.Database, &s.Database}, "listen": {&flags.Listen, &s.Listen}, "console": {&flags.Console, &s.Console},
		"console-cert": {&flags.Cert, &s.Cert}, "console-key": {&flags.Key, &s.Key}, "metrics": {&flags.Metrics, &s.Metrics},
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
	return s.checkPages()
}

// checkPages keeps passwords and numbers off a network that can read them.
func (s *serving) checkPages() error {
	here, err := onLoopback("--console", s.Console)
	switch {
	case err != nil:
		return err
	case (s.Cert == "") != (s.Key == ""):
		return cli.Usagef("--console-cert and --console-key belong together: name both files, or neither")
	case !here && s.Cert == "":
		return cli.Usagef("--console %.60q: without TLS the console is served on loopback only, like 127.0.0.1:8088: name a certificate with --console-cert and --console-key", s.Console)
	}
	if s.Metrics == "" {
		return nil
	}
	if here, err = onLoopback("--metrics", s.Metrics); err == nil && !here {
		err = cli.Usagef("--metrics %.60q: they are served on loopback only, like 127.0.0.1:9188: Prometheus runs beside central, or comes through a tunnel", s.Metrics)
	}
	return err
}

// onLoopback tells whether an address is this machine's alone.
func onLoopback(flag, hostPort string) (bool, error) {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		return false, cli.Usagef("%s %.60q: want host:port, like 127.0.0.1:8088", flag, hostPort)
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback(), nil
}

// listening is where it serves.
type listening struct {
	API     string `json:"api"`
	Console string `json:"console"`
	Metrics string `json:"metrics,omitempty"`
	Data    string `json:"data"`
}

// serve runs until ctx ends; then the order of the end is listeners, long polls, requests
// under way, database.
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
	pages := newServer(consoleHandler(c, s.Cert != ""), log)
	if pages.TLSConfig, err = s.consoleTLS(); err != nil {
		return err
	}
	list := []listener{{server: api, flag: "--listen", address: s.Listen}, {server: pages, flag: "--console", address: s.Console}}
	if s.Metrics != "" {
		list = append(list, listener{server: newServer(metricsHandler(c, log), log), flag: "--metrics", address: s.Metrics})
	}
	return serveAll(ctx, list, log, func(urls []string) error {
		where := listening{API: urls[0], Console: urls[1], Data: s.Data}
		if len(urls) > 2 {
			where.Metrics = urls[2] + "/metrics"
		}
		return where.print(out, asJSON)
	})
}

// consoleTLS is nil where the console is served without.
func (s *serving) consoleTLS() (*tls.Config, error) {
	if s.Cert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(s.Cert, s.Key)
	if err != nil {
		return nil, fmt.Errorf("--console-cert %s, --console-key %s: %w", s.Cert, s.Key, err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}}, nil
}

// listener is one of the servers with where it listens.
type listener struct {
	server        *http.Server // over TLS where it has a TLSConfig
	flag, address string
	ln            net.Listener
}

// serveAll runs servers until ctx ends: listeners first, so that what is printed is true.
func serveAll(ctx context.Context, list []listener, log *slog.Logger, print func(urls []string) error) (err error) {
	var urls []string
	var servers []*http.Server
	for i := range list {
		l := &list[i]
		if l.ln, err = net.Listen("tcp", l.address); err != nil {
			err = fmt.Errorf("%w: name another address with %s", err, l.flag)
			for _, open := range list[:i] {
				err = errors.Join(err, open.ln.Close())
			}
			return err
		}
		scheme := "http://"
		if l.server.TLSConfig != nil {
			scheme = "https://"
		}
		urls, servers = append(urls, scheme+l.ln.Addr().String()), append(servers, l.server)
	}
	ended := make(chan error, len(list))
	for _, l := range list {
		go func() {
			if l.server.TLSConfig != nil {
				ended <- l.server.ServeTLS(l.ln, "", "")
				return
			}
			ended <- l.server.Serve(l.ln)
		}()
	}
	if err := print(urls); err != nil {
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
	if err == nil && l.Metrics != "" {
		_, err = fmt.Fprintf(out, "metrics:   %s\n", l.Metrics)
	}
	return err
}
