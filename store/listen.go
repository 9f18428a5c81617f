package store

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Listen calls handle for every notification on the channels until ctx ends, on one connection of the pool. When the
// connection is lost it makes a new one and calls handle once with a nil payload for each channel: something may have
// been missed.
func Listen(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger, channels []string, handle func(channel string, payload *string)) {
	for ctx.Err() == nil {
		err := listen(ctx, pool, channels, handle)
		if ctx.Err() != nil {
			return
		}
		log.Warn("lost the notification connection", "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func listen(ctx context.Context, pool *pgxpool.Pool, channels []string, handle func(string, *string)) error {
	pc, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	// Out of the pool for good: a listening connection must not be handed to anyone else.
	conn := pc.Hijack()
	defer conn.Close(context.WithoutCancel(ctx))
	for _, c := range channels {
		if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{c}.Sanitize()); err != nil {
			return fmt.Errorf("listen %s: %w", c, err)
		}
		handle(c, nil)
	}
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		handle(n.Channel, &n.Payload)
	}
}
