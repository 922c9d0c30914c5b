data "aws_caller_identity" "this" {}

data "aws_partition" "this" {}

data "aws_region" "this" {}

locals {
  gateway_port    = 8080
  dispatcher_port = 8081
  redis_port      = 6379
  live_path       = "/livez"
  metrics_path    = "/metrics"

  # what ECS waits for between TERM and KILL; above gateway.drain, 25 s
  stop_seconds = 40

  own_environment = {
    GATEWAY_GATEWAY_HOST            = "0.0.0.0"
    GATEWAY_GATEWAY_PORT            = "${local.gateway_port}"
    GATEWAY_GATEWAY_DISPATCHER_PORT = "${local.dispatcher_port}"
    GATEWAY_GATEWAY_PUBLIC_URL      = var.public_url
    GATEWAY_GATEWAY_SLOTS           = "${var.slots}"
    GATEWAY_GATEWAY_LOG_FORMAT      = "json"
    GATEWAY_EGRESS_ALLOW            = join(",", var.egress_allow)
  }

  own_secrets = {
    GATEWAY_REDIS_URL = aws_secretsmanager_secret.redis_url.arn
    GATEWAY_API_KEY   = aws_secretsmanager_secret.api_key.arn
  }

  environment = merge(local.own_environment, var.environment)
  secrets     = merge(local.own_secrets, var.secrets)

  # an ARN may end in :key::, which picks a part of a secret; permission is for the whole
  secret_arns = distinct([for arn in values(local.secrets) : join(":", slice(split(":", arn), 0, 7))])

  log_options = {
    awslogs-group  = aws_cloudwatch_log_group.tasks.name
    awslogs-region = data.aws_region.this.region
    mode           = "non-blocking"
  }

  gateway_container = {
    name                   = "gateway"
    image                  = var.image
    command                = ["serve"]
    essential              = true
    readonlyRootFilesystem = true
    stopTimeout            = local.stop_seconds
    environment            = [for name, value in local.environment : { name = name, value = value }]
    secrets                = [for name, arn in local.secrets : { name = name, valueFrom = arn }]
    portMappings           = [{ containerPort = local.gateway_port, protocol = "tcp" }]
    mountPoints            = [{ sourceVolume = "tmp", containerPath = "/tmp", readOnly = false }]
    linuxParameters        = { initProcessEnabled = true, capabilities = { drop = ["ALL"] } }
    logConfiguration       = { logDriver = "awslogs", options = merge(local.log_options, { awslogs-stream-prefix = "gateway" }) }

    # alive, not ready: ECS kills what this calls unhealthy, and that does not bring Redis back
    healthCheck = {
      command     = ["CMD", "python", "-m", "gateway.health", "gateway", "--live"]
      interval    = 15
      timeout     = 5
      retries     = 4
      startPeriod = 30
    }
  }

  dispatcher_container = {
    name                   = "dispatcher"
    image                  = var.image
    command                = ["dispatch"]
    essential              = true
    readonlyRootFilesystem = true
    stopTimeout            = local.stop_seconds
    environment            = [for name, value in local.environment : { name = name, value = value }]
    secrets                = [for name, arn in local.secrets : { name = name, valueFrom = arn }]
    mountPoints            = [{ sourceVolume = "tmp", containerPath = "/tmp", readOnly = false }]
    linuxParameters        = { initProcessEnabled = true, capabilities = { drop = ["ALL"] } }
    logConfiguration       = { logDriver = "awslogs", options = merge(local.log_options, { awslogs-stream-prefix = "dispatcher" }) }

    healthCheck = {
      command     = ["CMD", "python", "-m", "gateway.health", "dispatcher", "--live"]
      interval    = 15
      timeout     = 5
      retries     = 4
      startPeriod = 30
    }
  }

  # reads one figure of the dispatcher beside it, at 127.0.0.1, and writes it as a CloudWatch metric
  collector_container = {
    name                   = "collector"
    image                  = var.collector_image
    essential              = false
    readonlyRootFilesystem = true
    environment            = [{ name = "AOT_CONFIG_CONTENT", value = local.collector_config }]
    linuxParameters        = { initProcessEnabled = true, capabilities = { drop = ["ALL"] } }
    logConfiguration       = { logDriver = "awslogs", options = merge(local.log_options, { awslogs-stream-prefix = "collector" }) }
  }

  collector_config = templatefile("${path.module}/collector.yaml", {
    installation = var.name
    region       = data.aws_region.this.region
    log_group    = aws_cloudwatch_log_group.metrics.name
    namespace    = local.metric_namespace
    metric       = local.oldest_metric
    endpoint     = "127.0.0.1:${local.dispatcher_port}"
    path         = local.metrics_path
  })
}

resource "aws_ecs_cluster" "this" {
  name = var.name
  tags = var.tags

  setting {
    name  = "containerInsights"
    value = "enabled"
  }
}

resource "aws_ecs_cluster_capacity_providers" "this" {
  cluster_name       = aws_ecs_cluster.this.name
  capacity_providers = ["FARGATE", "FARGATE_SPOT"]
}

resource "aws_ecs_task_definition" "gateway" {
  family                   = "${var.name}-gateway"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = var.gateway_cpu
  memory                   = var.gateway_memory
  execution_role_arn       = aws_iam_role.execution.arn
  task_role_arn            = aws_iam_role.task["gateway"].arn
  container_definitions    = jsonencode([local.gateway_container])
  tags                     = var.tags

  runtime_platform {
    operating_system_family = "LINUX"
    cpu_architecture        = var.architecture
  }

  volume {
    name = "tmp"
  }
}

resource "aws_ecs_task_definition" "dispatcher" {
  family                   = "${var.name}-dispatcher"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = var.dispatcher_cpu
  memory                   = var.dispatcher_memory
  execution_role_arn       = aws_iam_role.execution.arn
  task_role_arn            = aws_iam_role.task["dispatcher"].arn
  container_definitions    = jsonencode([local.dispatcher_container, local.collector_container])
  tags                     = var.tags

  runtime_platform {
    operating_system_family = "LINUX"
    cpu_architecture        = var.architecture
  }

  volume {
    name = "tmp"
  }
}

resource "aws_ecs_service" "gateway" {
  name                               = "gateway"
  cluster                            = aws_ecs_cluster.this.id
  task_definition                    = aws_ecs_task_definition.gateway.arn
  desired_count                      = var.gateway_count.min
  deployment_minimum_healthy_percent = 100
  deployment_maximum_percent         = 200
  health_check_grace_period_seconds  = 60
  enable_execute_command             = var.enable_execute_command
  propagate_tags                     = "SERVICE"
  tags                               = var.tags
  depends_on                         = [aws_lb_listener.https, aws_iam_role_policy.execution, aws_secretsmanager_secret_version.redis_url, aws_secretsmanager_secret_version.api_key]

  capacity_provider_strategy {
    capacity_provider = "FARGATE"
    weight            = 1
  }

  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }

  network_configuration {
    subnets          = var.private_subnet_ids
    security_groups  = [aws_security_group.gateway.id]
    assign_public_ip = false
  }

  load_balancer {
    target_group_arn = aws_lb_target_group.gateway.arn
    container_name   = local.gateway_container.name
    container_port   = local.gateway_port
  }

  lifecycle {
    # autoscaling's
    ignore_changes = [desired_count]
  }
}

resource "aws_ecs_service" "dispatcher" {
  name                               = "dispatcher"
  cluster                            = aws_ecs_cluster.this.id
  task_definition                    = aws_ecs_task_definition.dispatcher.arn
  desired_count                      = var.dispatcher_count.min
  deployment_minimum_healthy_percent = 100
  deployment_maximum_percent         = 200
  enable_execute_command             = var.enable_execute_command
  propagate_tags                     = "SERVICE"
  tags                               = var.tags
  depends_on                         = [aws_iam_role_policy.execution, aws_secretsmanager_secret_version.redis_url, aws_secretsmanager_secret_version.api_key]

  capacity_provider_strategy {
    capacity_provider = var.dispatcher_spot ? "FARGATE_SPOT" : "FARGATE"
    weight            = 1
  }

  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }

  network_configuration {
    subnets          = var.private_subnet_ids
    security_groups  = [aws_security_group.dispatcher.id]
    assign_public_ip = false
  }

  lifecycle {
    # autoscaling's
    ignore_changes = [desired_count]
  }
}
