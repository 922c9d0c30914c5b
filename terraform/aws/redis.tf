# ElastiCache for Valkey: one primary or a Cluster of them, each with replicas in other availability zones.

locals {
  valkey_family = "valkey${split(".", var.valkey_version)[0]}"
  redis_user    = "gateway"
  redis_scheme  = var.cluster_mode ? "rediss+cluster" : "rediss"
  redis_host    = var.cluster_mode ? aws_elasticache_replication_group.this.configuration_endpoint_address : aws_elasticache_replication_group.this.primary_endpoint_address
  redis_path    = var.cluster_mode ? "" : "/0"
  redis_url     = "${local.redis_scheme}://${local.redis_user}:${random_password.redis.result}@${local.redis_host}:${local.redis_port}${local.redis_path}"
}

resource "aws_elasticache_subnet_group" "this" {
  name        = var.name
  description = "Where ElastiCache of ${var.name} lies"
  subnet_ids  = var.private_subnet_ids
  tags        = var.tags
}

resource "aws_elasticache_parameter_group" "this" {
  name        = "${var.name}-${local.valkey_family}${var.cluster_mode ? "-cluster" : ""}"
  description = "Settings that a queue needs"
  family      = local.valkey_family
  tags        = var.tags

  # ElastiCache's default would evict jobs; the gateway refuses to start with it
  parameter {
    name  = "maxmemory-policy"
    value = "noeviction"
  }

  dynamic "parameter" {
    for_each = var.cluster_mode ? ["yes"] : []

    content {
      name  = "cluster-enabled"
      value = parameter.value
    }
  }

  lifecycle {
    create_before_destroy = true
  }
}

resource "random_password" "redis" {
  length  = 40
  special = false
}

resource "aws_elasticache_user" "gateway" {
  user_id       = "${var.name}-gateway"
  user_name     = local.redis_user
  engine        = "valkey"
  access_string = "on ~gw:* &gw:* +@all -@dangerous +info +role +cluster|slots +cluster|shards +cluster|nodes +cluster|info"
  passwords     = [random_password.redis.result]
  tags          = var.tags
}

resource "aws_elasticache_user_group" "this" {
  user_group_id = var.name
  engine        = "valkey"
  user_ids      = [aws_elasticache_user.gateway.user_id]
  tags          = var.tags
}

resource "aws_elasticache_replication_group" "this" {
  replication_group_id = var.name
  description          = "Jobs of ${var.name}"
  engine               = "valkey"
  engine_version       = var.valkey_version
  node_type            = var.node_type
  port                 = local.redis_port
  parameter_group_name = aws_elasticache_parameter_group.this.name
  subnet_group_name    = aws_elasticache_subnet_group.this.name
  security_group_ids   = [aws_security_group.redis.id]
  user_group_ids       = [aws_elasticache_user_group.this.user_group_id]

  cluster_mode               = var.cluster_mode ? "enabled" : "disabled"
  num_node_groups            = var.cluster_mode ? var.shards : 1
  replicas_per_node_group    = var.replicas
  multi_az_enabled           = true
  automatic_failover_enabled = true

  transit_encryption_enabled = true
  transit_encryption_mode    = "required"
  at_rest_encryption_enabled = true
  kms_key_id                 = var.kms_key_arn

  auto_minor_version_upgrade = true
  apply_immediately          = false
  snapshot_retention_limit   = var.snapshot_retention_days
  final_snapshot_identifier  = var.deletion_protection ? "${var.name}-final" : null
  tags                       = var.tags

  log_delivery_configuration {
    destination      = aws_cloudwatch_log_group.redis.name
    destination_type = "cloudwatch-logs"
    log_format       = "json"
    log_type         = "slow-log"
  }
}
