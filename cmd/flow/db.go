package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/embedded"
)

func (c *cli) dbCommand() *cobra.Command {
	var o serveOptions
	migrate := &cobra.Command{
		Use:     "migrate",
		Short:   "Bring the schema up to date",
		Long:    "Bring the schema up to date: Flow's and the job queue's, under one lock. A server does the same when it starts.",
		Example: "  flow db migrate --database-url postgres://flow@db.example/flow",
		Args:    arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withDatabase(cmd.Context(), o, func(url string) error {
				_, err := store.Migrate(cmd.Context(), url)
				return err
			})
		},
	}
	status := &cobra.Command{
		Use:     "status",
		Short:   "List the steps of the schema and which are pending",
		Example: "  flow db status\n  flow db status -o json",
		Args:    arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withDatabase(cmd.Context(), o, func(url string) error {
				all, err := store.Migrations(cmd.Context(), url)
				if err != nil {
					return err
				}
				return c.printMigrations(all)
			})
		},
	}
	status.Flags().VarP(&c.output, "output", "o", "how to print results: "+accepted(formatWords))
	db := parent("db", "Work on the database",
		"Work on the database of a server: its own one in the data directory, or another PostgreSQL.", migrate, status)
	f := db.PersistentFlags()
	f.StringVar(&o.dataDir, "data-dir", "", "directory of the server's own files (default "+defaultDataDir(c.getenv)+")")
	f.StringVar(&o.databaseURL, "database-url", "",
		"PostgreSQL to use instead of our own (FLOW_DATABASE_URL; or DB_HOST, DB_PORT, DB_NAME, DB_USER, DB_PASSWORD)")
	f.StringVar(&o.postgresBin, "postgres-bin", "", "directory with PostgreSQL's programs, for our own PostgreSQL (FLOW_POSTGRES_BIN)")
	return db
}

// withDatabase runs fn on the database the options mean. Our own PostgreSQL is started for it when no server runs.
func (c *cli) withDatabase(ctx context.Context, o serveOptions, fn func(url string) error) error {
	o.listen, o.simSpeed, o.workers = "127.0.0.1:0", 1, 1
	if err := o.complete(c.getenv); err != nil {
		return err
	}
	if o.databaseURL != "" {
		return fn(o.databaseURL)
	}
	pg, err := embedded.Start(ctx, embedded.Config{Dir: o.dataDir, BinDir: o.postgresBin, Logger: slog.New(slog.DiscardHandler)})
	if errors.Is(err, embedded.ErrInUse) {
		return fmt.Errorf("%w; a server has brought its schema up to date when it started", err)
	} else if err != nil {
		return err
	}
	err = fn(pg.URL())
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return errors.Join(err, pg.Stop(stop))
}

func (c *cli) printMigrations(all []store.Migration) error {
	return c.printValue(all, func(w io.Writer) error {
		t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
		fmt.Fprintln(t, "SET\tVERSION\tNAME\tSTATE")
		for _, m := range all {
			state := "applied"
			if m.Pending {
				state = "pending"
			}
			fmt.Fprintf(t, "%s\t%d\t%s\t%s\n", m.Set, m.Version, m.Name, state)
		}
		return t.Flush()
	})
}

// databaseURLOf makes a connection string of the reference's variables.
func databaseURLOf(getenv getenvFunc) (string, error) {
	port := getenv("DB_PORT")
	if port == "" {
		port = "5432"
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("DB_PORT %q is not a port number", port)
	}
	for _, name := range []string{"DB_NAME", "DB_USER"} {
		if getenv(name) == "" {
			return "", fmt.Errorf("DB_HOST is set, so %s must be as well", name)
		}
	}
	u := url.URL{Scheme: "postgres", Host: net.JoinHostPort(getenv("DB_HOST"), port), Path: "/" + getenv("DB_NAME")}
	u.User = url.User(getenv("DB_USER"))
	if pass := getenv("DB_PASSWORD"); pass != "" {
		u.User = url.UserPassword(getenv("DB_USER"), pass)
	}
	if cert := getenv("DB_CERT_PATH"); cert != "" {
		u.RawQuery = url.Values{"sslmode": {"verify-full"}, "sslrootcert": {cert}}.Encode()
	}
	return u.String(), nil
}
